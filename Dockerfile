# docker build -t clawgauge . && mkdir -p runs
# docker run --rm --user "$(id -u)" -v "$PWD/runs:/work/runs" clawgauge run -t embedded:smollm2-135m
FROM python:3.12-slim
# llama.cpp needs it, and the image is too small to have it.
RUN apt-get update && apt-get install -y --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
COPY pyproject.toml README.md LICENSE constraints.txt /src/
COPY src /src/src
RUN python -m pip install --no-cache-dir --disable-pip-version-check --constraint /src/constraints.txt '/src[embedded]'
# The model is there for whoever the container runs as: a run's folder belongs to the person who started it.
ENV CLAWGAUGE_CACHE_DIR=/opt/clawgauge
RUN clawgauge doctor --get-embedded && chmod -R a+rX /opt/clawgauge
RUN useradd --create-home clawgauge && mkdir -m 1777 /work
USER clawgauge
WORKDIR /work
ENTRYPOINT ["clawgauge"]
CMD ["--help"]
