"""Tool calls in code blocks and code spans, rule by rule."""

from __future__ import annotations

from unit.checks.detection_rows import names_in, rows


@rows(
    ("```bash\nfree -h\ndf -h\n```", ["free", "df"]),
    ("~~~sh\nfree -h\n~~~", ["free"]),
    ("```BASH\nfree -h\n```", ["free"]),
    ("```bash title=x\nfree -h\n```", ["free"]),
    ("```{.bash}\nfree -h\n```", ["free"]),
    ("```bash\nfree -h", ["free"]),
    ("```bash", []),
    ("```shell\nmytool whatever\n```", ["mytool"]),
    ("```bash\n# ls -la\n  # df\nfree # uptime\n```", ["free"]),
    ("```sh\n$ free -h\ntotal used\n$ df\n```", ["free", "df"]),
    ("```console\nme@pc:~$ ls\nfoo bar\nroot@pc:/# df -h\n```", ["ls", "df"]),
    ("```bash\n$HOME/bin/foo x\nls\n```", ["foo", "ls"]),
    ("```bash\nls -la | wc -l; pwd\n```", ["ls", "wc", "pwd"]),
    ("```bash\nLS -la\n```", ["ls"]),
    ("```bash\ndocker run \\\n  -p 80:80 \\\n  web\nls\n```", ["docker", "ls"]),
    ("```bash\ncat <<EOF > f\nfoo bar\nEOF\nls\n```", ["cat", "ls"]),
    ("```bash\ncat <<-'END'\n\tfoo bar\n\tEND\nls\n```", ["cat", "ls"]),
    ("```bash\ncat << NEVER\nls\n```", ["cat", "ls"]),
    ('```bash\npython3 -c "\nimport os\n"\nls\n```', ["python3", "ls"]),
    ("```bash\nfor f in *.log; do gzip $f; done\n```", ["gzip"]),
    ("```bash\nif [ -f x ]; then\n  cat x\nelse\n  touch x\nfi\n```", ["cat", "touch"]),
    ("```bash\nwhile ! ping -c1 h; do sleep 1; done\n```", ["ping", "sleep"]),
    ("> ```bash\n> free -h\n> ```\n`ls`", ["free", "ls"]),
    ("- ```sh\n  ls -la\n  ```\n`pwd`", ["ls", "pwd"]),
    ("1. Run:\n\n   ```sh\n   ls -la\n   ```", ["ls"]),
    ("```bash\r\nfree -h\r\n```\r\n`ls`", ["free", "ls"]),
)
def test_shell_blocks(text: str, names: list[str], expected: list[str]) -> None:
    """In a shell block each line is a command line, or each prompt's where there are prompts."""
    assert names_in(text, expected) == names


@rows(
    ("Here: ```bash\nfree -h\n```\n`ls`", ["free", "ls"]),
    ("```bash\nfree -h```\nThis is memory. `ls`", ["free", "ls"]),
    ("close it with ```\nand run `ls`", ["ls"]),
    ("```free -h```", ["free"]),
    ("```bash free -h```", ["free"]),
    ("```bash run.sh``` `bash free`", ["bash", "bash"]),
    ("````bash\nls\n```\npwd\n````\n`id`", ["ls", "pwd", "id"]),
    ("```bash\nls\n~~~\npwd\n```", ["ls", "pwd"]),
    ("~~~text\n```bash\nls\n```\n~~~\n`id`", ["id"]),
)
def test_where_a_block_starts_and_ends(text: str, names: list[str], expected: list[str]) -> None:
    """A block ends at a fence at least as long as its first, even at the end of a line, and nowhere else."""
    assert names_in(text, expected) == names


@rows(
    ("```\nfree -h\n```", ["free"]),
    ("```\nuptime\n```", ["uptime"]),
    ("```\nfree\n```", []),
    ("```\nhello world\n```", []),
    ("```\nTotal: 5 -x\n```", []),
    ("```\n$ mytool now\nsome output\n```", ["mytool"]),
    ("```\n$ ps aux\nroot 1 0.0 /sbin/init --system\ndf -h\n```", ["ps", "df"]),
    ("```\n# uptime\n# what it does\n```", ["uptime"]),
    ("```\nWARNING --force is on\n```", []),
    ("```\n\n```", []),
)
def test_blocks_without_info_word(text: str, names: list[str], expected: list[str]) -> None:
    """In a block of unknown kind only prompts and lines that look like commands count."""
    assert names_in(text, expected) == names


@rows(
    ("```python\nimport os\nos.system('ls -la')\n```", []),
    ("```text\n$ free -h\n```", []),
    ("```yaml\nrun: free -h", []),
    ('```json\n{"cmd": "ls -la"}\n```', []),
    ("```diff\n- $ ls\n```\n`pwd`", ["pwd"]),
)
def test_other_blocks_hold_nothing(text: str, names: list[str], expected: list[str]) -> None:
    """A program or a listing is not a call, whatever it quotes."""
    assert names_in(text, expected) == names


@rows(
    ("Run `free`.", ["free"]),
    ("`uptime` and `anything`", ["uptime", "anything"]),
    ("```` free -h ````", ["free"]),
    ("`` free -h ` ``", ["free"]),
    ("`free\n-h`", []),
    ("`` and `free`", ["free"]),
    ("` ` `  `", []),
    ("`free` `unclosed", ["free"]),
    ("a ` b `` c ` d", ["b"]),
    ("`$ free -h`", ["free"]),
    ("`me@pc:~$ free -h`", ["free"]),
    ("`# free -h`", []),
    ("`free -h # memory`", ["free"]),
    ("`Free -H`", ["free"]),
)
def test_code_spans(text: str, names: list[str], expected: list[str]) -> None:
    """A code span is closed by a run of back-ticks of its own length on its own line, and any word in it counts."""
    assert names_in(text, expected) == names


@rows(
    ("`json` `Json` `YAML` `null` `none` `n/a` `text file`", []),
    ("`-h` `--help` `-`", []),
    ("`42` `3.14` `1.2.3` `50%` `2026-02-13` `10:30` `0x1f` `1e9` `16G` `7.6GiB` `5ms`", []),
    ("`42 files`", []),
    ("`7z` `2to3`", ["7z", "2to3"]),
    ("`config.yaml` `README.md` `llama3.2:3b` `node.js`", []),
    ("`run.sh now`", ["run.sh"]),
    ("`python3.11`", ["python3.11"]),
    ("`system.run`", ["system.run"], ["system.run"]),
    ("`x = 5` `x =5` `x == 5` `x := 5` `x += 1` `x=5` `x -> y` `load > 5`", []),
    ("`key: value` `Mem:`", []),
    ("`localhost:8080`", []),
    ("`/etc/passwd` `~/notes` `../up` `logs/app.log` `name/size` `/opt/tool -x`", []),
    (
        "`/usr/bin/free -h` `bin/foo` `/sbin/ip a` `~/bin/bar` `venv/bin/pytest`",
        ["free", "foo", "ip", "bar", "pytest"],
    ),
    ("`./run.sh` `./tools/check.sh -x`", ["run.sh", "check.sh"]),
    ("`<name> -x` `local|premium` `https://example.com/x` `$HOME` `*.log` `@user`", []),
    ("`" + "x" * 129 + "`", []),
)
def test_what_else_is_set_in_code(text: str, names: list[str], expected: list[str]) -> None:
    """Formats, options, figures, files, assignments and paths are not calls."""
    assert names_in(text, expected) == names
