# docker build -t clawgauge . && docker run --rm -v "$PWD/runs:/work/runs" clawgauge run -t embedded:smollm2-135m
FROM python:3.12-slim
COPY pyproject.toml README.md LICENSE constraints.txt /src/
COPY src /src/src
RUN python -m pip install --no-cache-dir --disable-pip-version-check --constraint /src/constraints.txt '/src[embedded]'
RUN useradd --create-home clawgauge && mkdir /work && chown clawgauge /work
USER clawgauge
WORKDIR /work
RUN clawgauge doctor --get-embedded
ENTRYPOINT ["clawgauge"]
CMD ["--help"]
