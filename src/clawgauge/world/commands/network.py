"""Commands on the network, as far as this world has one: curl, wget, ss, netstat, ip, ping, dig and their like."""

from __future__ import annotations

import re

from clawgauge.world.commands.call import Call, NotSimulated, UsageFault, command, table
from clawgauge.world.nouns import Page, read_address
from clawgauge.world.refusals import FileFault, Refusal


@command(
    "curl", flags="sSfiIOG", valued="omHwXdAuebFTc",
    long="silent:s show-error:S location:L fail:f output:o= include:i head:I header:H= max-time:m= remote-name:O "
    "write-out:w= request:X= data:d= data-raw:d= data-binary:d= data-urlencode:d= json:d= user-agent:A= user:u= "
    "insecure:k verbose:v connect-timeout= retry= retry-delay= retry-max-time= fail-with-body:f url= form:F= "
    "upload-file:T= referer:e= cookie:b= get:G retry-all-errors retry-connrefused max-redirs= create-dirs",
    idle="#46AHJLNbcegjkmuv",
    idle_words="compressed no-progress-meter no-buffer ipv4 connect-timeout create-dirs max-redirs "
    "retry-all-errors retry-connrefused retry-delay retry-max-time",
)  # fmt: skip
def curl(call: Call) -> int:
    options = call.options
    method = options.value("X", "HEAD" if options.has("I") else "GET").upper()
    if (options.has("d", "F", "T") and not options.has("G")) or method not in ("GET", "HEAD"):
        raise NotSimulated("(6) only GET requests can be made from here", 6)
    urls = [*options.all("url"), *options.operands]
    if not urls:
        raise UsageFault("no URL specified", 2)
    codes = [_curl_one(call, url if "://" in url else f"http://{url}") for url in urls]
    return next((code for code in reversed(codes) if code), 0)


def _curl_one(call: Call, url: str) -> int:
    options = call.options
    quiet = options.has("s") and not options.has("S")
    if options.has("G") and options.has("d"):
        url += ("&" if "?" in url else "?") + "&".join(options.all("d"))
    try:
        page = _fetch(call, url, min(5, options.whole("retry", 0)))
    except Refusal as refusal:
        return 6 if quiet else call.complain(f"(6) {refusal}", 6)
    if options.has("f") and page.status >= 400:
        return 22 if quiet else call.complain(f"(22) The requested URL returned error: {page.status}", 22)
    size = len(page.body.encode())
    head = f"HTTP/1.1 {page.status} {page.reason}\r\ncontent-type: {page.content_type}\r\n"
    head += f"retry-after: {page.retry_after_s}\r\n" if page.retry_after_s is not None else ""
    head += f"content-length: {size}\r\n\r\n"
    shown = head if options.has("I") else head + page.body if options.has("i") else page.body
    code = _deliver(call, shown, options.value("o") or (_name_of(url) if options.has("O") else ""))
    values = {
        "http_code": str(page.status), "response_code": str(page.status), "size_download": str(size),
        "content_type": page.content_type, "url_effective": url, "time_total": "0.084", "time_connect": "0.012",
        "time_namelookup": "0.004", "num_redirects": "0", "time_starttransfer": "0.061", "remote_ip": "203.0.113.10",
        "exitcode": "0", "errormsg": "",
    }  # fmt: skip

    def fill(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise NotSimulated(f"'%{{{found[1][:30]}}}' is not supported here", 2)
        return values[found[1]]

    written = re.sub(r"%\{(\w+)\}", fill, options.value("w"))
    return call.print(written.replace("\\n", "\n").replace("\\t", "\t"), code)


def _fetch(call: Call, url: str, retries: int) -> Page:
    page = call.machine.web.fetch(url)
    while retries > 0 and page.status in (408, 429, 500, 502, 503, 504):
        retries -= 1
        call.machine.clock.advance(page.retry_after_s or 1)
        page = call.machine.web.fetch(url)
    return page


@command(
    "wget", flags="q", valued="OTtPU",
    long="quiet:q output-document:O= timeout:T= tries:t= directory-prefix:P= continue:c server-response:S spider "
    "user-agent:U= timestamping:N", idle="nvNSTUc",
    idle_words="no-verbose no-check-certificate show-progress progress",
)  # fmt: skip
def wget(call: Call) -> int:
    options = call.options
    url = call.require_operands("missing URL")[0]
    url = url if "://" in url else f"http://{url}"
    quiet = options.has("q")
    try:
        page = _fetch(call, url, min(5, options.whole("t", 1) - 1))
    except Refusal as refusal:
        return 4 if quiet else call.complain(f"{refusal}", 4)
    if page.status >= 400:
        return call.say("" if quiet else f"ERROR {page.status}: {page.reason}.\n", 8)
    if options.has("spider"):
        return call.say("" if quiet else "Remote file exists.\n", 0)
    folder = f"{options.value('P').rstrip('/')}/" if options.has("P") else ""
    target = options.value("O") or folder + _name_of(url)
    code = _deliver(call, page.body, target)
    if not quiet and not code and target != "-":
        call.say(f"'{target}' saved [{len(page.body.encode())}]\n")
    return code


def _name_of(url: str) -> str:
    return read_address(url).text.partition("?")[0].rpartition("/")[2] or "index.html"


def _deliver(call: Call, text: str, target: str) -> int:
    """To a file where one is named, else to standard output."""
    if not target or target == "-":
        return call.print(text)
    try:
        call.files.write(call.resolve(target), text)
    except FileFault as fault:
        return call.complain(f"(23) {target}: {fault}", 23)
    return 0


@command(
    "ss", "netstat", flags="tupHs",
    long="tcp:t udp:u listening:l numeric:n processes:p all:a programs:p no-header:H", idle="46Waceilno",
)  # fmt: skip
def ss(call: Call) -> int:
    """Who listens where. `processes.ports` and `services.ports` of the specification say so."""
    options = call.options
    sockets = sorted((port, process.pid, process.name) for process in call.machine.processes for port in process.ports)
    if options.has("s"):
        return call.print(
            f"Total: {len(sockets) + 4}\nTCP:   {len(sockets)} (estab 0, closed 0, orphaned 0, timewait 0)\n"
        )
    if options.has("u") and not options.has("t"):
        sockets = []
    wanted = re.search(r"\bs?port\s*=?=?\s*:?(\d+)", " ".join(options.operands))
    if options.operands and wanted is None:
        raise NotSimulated(f"the filter '{' '.join(options.operands)[:60]}' is not supported here")
    sockets = [one for one in sockets if wanted is None or one[0] == int(wanted[1])]
    if call.name == "netstat":
        rows = [["Proto", "Recv-Q", "Send-Q", "Local Address", "Foreign Address", "State", "PID/Program name"]]
        rows += [["tcp", "0", "0", f"0.0.0.0:{p}", "0.0.0.0:*", "LISTEN", f"{pid}/{name}"] for p, pid, name in sockets]
        left, gap = [0, 3, 4, 5, 6], " "
        call.print("Active Internet connections (only servers)\n")
    else:
        rows = [["State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:Port", "Process"]]
        rows += [
            ["LISTEN", "0", "511", f"0.0.0.0:{port}", "0.0.0.0:*", f'users:(("{name}",pid={pid},fd=5))']
            for port, pid, name in sockets
        ]
        left, gap = [0, 5], "  "
    rows = rows if options.has("p") else [row[:-1] for row in rows]
    return call.print(table(rows[1:] if options.has("H") else rows, left, gap))


@command("ip", "ifconfig", raw=True)
def ip(call: Call) -> int:
    kind = next((word for word in call.args if not word.startswith("-")), "addr")
    address = call.machine.address
    if kind in ("r", "ro", "route"):
        return call.print(
            f"default via 10.0.0.1 dev eth0\n10.0.0.0/24 dev eth0 proto kernel scope link src {address}\n"
        )
    if kind not in ("a", "ad", "addr", "address") and call.name == "ip":
        raise NotSimulated(f"'{kind[:40]}' is not supported here")
    if "-br" in call.args or "-brief" in call.args:
        return call.print(
            f"lo               UNKNOWN        127.0.0.1/8\neth0             UP             {address}/24\n"
        )
    call.print("1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536\n    inet 127.0.0.1/8 scope host lo\n")
    return call.print(
        f"2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500\n    inet {address}/24 brd 10.0.0.255 scope global eth0\n"
    )


@command("ping", flags="q", valued="cWiwsI", idle="46AIWainsw")
def ping(call: Call) -> int:
    options = call.options
    name = call.require_operands("usage error: Destination address required", 2)[0]
    host = call.machine.hosts.find(name)
    if host is None:
        return call.complain(f"{name}: Name or service not known", 2)
    count = min(20, max(1, options.whole("c", 4)))
    call.machine.effects.note("fetched", f"ping:{name}")
    call.machine.clock.advance(count - 1)
    n_received, time = count if host.reachable else 0, host.latency_ms
    call.print(f"PING {name} ({host.address}) 56(84) bytes of data.\n")
    for number in range(0 if options.has("q") else n_received):
        call.print(f"64 bytes from {host.address}: icmp_seq={number + 1} ttl=64 time={time:.2f} ms\n")
    call.print(
        f"\n--- {name} ping statistics ---\n{count} packets transmitted, {n_received} received, "
        f"{0 if host.reachable else 100}% packet loss, time {(count - 1) * 1000}ms\n"
    )
    if not host.reachable:
        return 1
    return call.print(f"rtt min/avg/max/mdev = {time:.3f}/{time:.3f}/{time:.3f}/0.000 ms\n")


@command("dig", "nslookup", "host", "getent", raw=True)
def dig(call: Call) -> int:
    for word in call.args:
        if word.upper() in ("MX", "TXT", "NS", "AAAA", "CNAME", "SOA", "PTR", "SRV") or word in ("-x", "+trace"):
            raise NotSimulated(f"'{word}' is not supported here; only addresses are known")
    words = [
        word for word in call.args if not word.startswith(("+", "-", "@")) and word.upper() not in ("A", "IN", "ANY")
    ]
    if call.name == "getent":
        if words[:1] not in (["hosts"], ["ahosts"], ["passwd"]) or len(words) < 2:
            raise NotSimulated("only 'getent hosts NAME' and 'getent passwd NAME' are supported here")
        if words[0] == "passwd":
            lines = (call.files.text_of("/etc/passwd") or "").splitlines(keepends=True)
            found = "".join(line for line in lines if line.startswith(f"{words[1]}:"))
            return call.print(found, 0 if found else 2)
        words = words[1:]
    if not words:
        raise UsageFault("a name is missing")
    name, host = words[0], call.machine.hosts.find(words[0])
    call.machine.effects.note("fetched", f"dns:{name}")
    match call.name:
        case "dig":
            answer = f"{name}.\t\t300\tIN\tA\t{host.address}\n" if host else ""
            section = f";; ANSWER SECTION:\n{answer}\n" if host else ""
            full = (
                f";; ->>HEADER<<- opcode: QUERY, status: {'NOERROR' if host else 'NXDOMAIN'}, id: 4711\n"
                f";; QUESTION SECTION:\n;{name}.\t\tIN\tA\n\n{section};; Query time: 2 msec\n"
            )
            short = f"{host.address}\n" if host else ""
            return call.print(short if "+short" in call.args else answer if "+noall" in call.args else full)
        case "getent":
            return call.print(f"{host.address:<15} {name}\n" if host else "", 0 if host else 2)
        case "host":
            call.print(f"{name} has address {host.address}\n" if host else f"Host {name} not found: 3(NXDOMAIN)\n")
        case _:
            text = f"Name:\t{name}\nAddress: {host.address}\n" if host else f"** server can't find {name}: NXDOMAIN\n"
            call.print(f"Server:\t\t10.0.0.1\nAddress:\t10.0.0.1#53\n\n{text}")
    return 0 if host else 1


@command("nc", "ncat", "netcat", flags="z", valued="w", idle="vnw")
def nc(call: Call) -> int:
    """Whether a port can be reached, and nothing else."""
    if not call.options.has("z") or len(call.options.operands) < 2:
        raise NotSimulated("only 'nc -z HOST PORT' is supported here")
    name, port = call.options.operands[:2]
    host = call.machine.hosts.find(name)
    call.machine.effects.note("fetched", f"tcp:{name}:{port}")
    if host is None:
        return call.complain(f'getaddrinfo for host "{name}" port {port}: Name or service not known')
    listening = {str(one) for process in call.machine.processes for one in process.ports}
    if not host.reachable or (host.address.startswith("127.") and port not in listening):
        return call.complain(f"connect to {name} ({host.address}) port {port} (tcp) failed: Connection refused")
    return call.say(f"Connection to {name} ({host.address}) {port} port [tcp/*] succeeded!\n", 0)
