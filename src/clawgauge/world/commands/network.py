"""Commands on the network, as far as this world has one: curl, wget, ss, netstat, ip, ping, dig and their like."""

from __future__ import annotations

import re

from clawgauge.world.commands.call import Call, NotSimulated, UsageFault, command, table
from clawgauge.world.nouns import Page, read_address
from clawgauge.world.refusals import FileFault, Refusal


@command(
    "curl", flags="sSfiIOG", valued="omHwXdAuebFTxc",
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
    if options.has("x"):
        raise NotSimulated("(5) there is no proxy here", 5)
    urls = [*options.all("url"), *options.operands]
    if not urls:
        raise UsageFault("no URL specified", 2)
    code = 0
    for url in urls:
        code = _curl_one(call, url if "://" in url else f"http://{url}") or code
    return code


def _curl_one(call: Call, url: str) -> int:
    options = call.options
    quiet = options.has("s") and not options.has("S")
    if options.has("G") and options.has("d"):
        url += ("&" if "?" in url else "?") + "&".join(options.all("d"))
    try:
        page = _fetch(call, url, min(5, options.whole("retry", 0)))
    except Refusal as refusal:
        number = 7 if "connect" in str(refusal) else 6
        return number if quiet else call.complain(f"({number}) {refusal}", number)
    if options.has("f") and page.status >= 400:
        return 22 if quiet else call.complain(f"(22) The requested URL returned error: {page.status}", 22)
    head = f"HTTP/1.1 {page.status} {page.reason}\r\ncontent-type: {page.content_type}\r\n"
    head += f"retry-after: {page.retry_after_s}\r\n" if page.retry_after_s is not None else ""
    head += f"content-length: {len(page.body.encode())}\r\n\r\n"
    shown = head if options.has("I") else head + page.body if options.has("i") else page.body
    code = _deliver(call, shown, options.value("o") or (_name_of(url) if options.has("O") else ""))
    if options.has("w"):
        call.print(_written_out(options.value("w"), page, url))
    return code


def _fetch(call: Call, url: str, retries: int) -> Page:
    page = call.machine.web.fetch(url)
    while retries > 0 and page.status in (408, 429, 500, 502, 503, 504):
        retries -= 1
        call.machine.clock.advance(page.retry_after_s or 1)
        page = call.machine.web.fetch(url)
    return page


def _written_out(form: str, page: Page, url: str) -> str:
    size = str(len(page.body.encode()))
    values = {
        "http_code": str(page.status), "response_code": str(page.status), "size_download": size,
        "content_type": page.content_type,
        "url_effective": url, "time_total": "0.084", "time_connect": "0.012", "time_namelookup": "0.004",
        "num_redirects": "0",
        "time_starttransfer": "0.061", "remote_ip": "203.0.113.10", "exitcode": "0", "errormsg": "",
    }  # fmt: skip

    def fill(found: re.Match[str]) -> str:
        if found[1] not in values:
            raise NotSimulated(f"'%{{{found[1][:30]}}}' is not supported here", 2)
        return values[found[1]]

    return re.sub(r"%\{(\w+)\}", fill, form).replace("\\n", "\n").replace("\\t", "\t")


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
        call.say("" if quiet else f"ERROR {page.status}: {page.reason}.\n")
        return 8
    if options.has("spider"):
        call.say("" if quiet else "Remote file exists.\n")
        return 0
    target = options.value("O") or _name_of(url)
    target = f"{options.value('P').rstrip('/')}/{target}" if options.has("P") and not options.has("O") else target
    code = _deliver(call, page.body, target)
    if not quiet and not code and target != "-":
        call.say(f"'{target}' saved [{len(page.body.encode())}]\n")
    return code


def _name_of(url: str) -> str:
    try:
        return read_address(url).text.partition("?")[0].rpartition("/")[2] or "index.html"
    except Refusal:
        return "index.html"


def _deliver(call: Call, text: str, target: str) -> int:
    """To a file where one is named, else to standard output."""
    if not target or target == "-":
        call.print(text)
        return 0
    try:
        call.files.write(call.resolve(target), text)
    except FileFault as fault:
        return call.complain(f"(23) {target}: {fault}", 23)
    return 0


@command(
    "ss", "netstat", flags="tupsrxHs",
    long="tcp:t udp:u listening:l numeric:n processes:p all:a programs:p no-header:H", idle="46Waceilno",
)  # fmt: skip
def ss(call: Call) -> int:
    """Who listens where. `processes.ports` and `services.ports` of the specification say so."""
    options = call.options
    if options.has("r", "x"):
        raise NotSimulated("options '-r' and '-x' are not supported here")
    sockets = [(port, process) for process in call.machine.processes for port in process.ports]
    with_names = options.has("p")
    if options.has("s"):
        call.print(f"Total: {len(sockets) + 4}\nTCP:   {len(sockets)} (estab 0, closed 0, orphaned 0, timewait 0)\n")
        return 0
    if options.has("u") and not options.has("t"):
        sockets = []
    wanted = re.search(r"\bs?port\s*=?=?\s*:?(\d+)", " ".join(options.operands))
    if options.operands and wanted is None:
        raise NotSimulated(f"the filter '{' '.join(options.operands)[:60]}' is not supported here")
    if wanted:
        sockets = [pair for pair in sockets if pair[0] == int(wanted[1])]
    sockets.sort(key=lambda pair: pair[0])
    no_title = options.has("H")
    if call.name == "netstat":
        rows = [
            [
                "Proto",
                "Recv-Q",
                "Send-Q",
                "Local Address",
                "Foreign Address",
                "State",
                *(["PID/Program name"] if with_names else []),
            ]
        ]
        for port, process in sockets:
            rows.append(
                [
                    "tcp",
                    "0",
                    "0",
                    f"0.0.0.0:{port}",
                    "0.0.0.0:*",
                    "LISTEN",
                    *([f"{process.pid}/{process.name}"] if with_names else []),
                ]
            )
        call.print("Active Internet connections (only servers)\n" + table(rows, (0, 3, 4, 5, 6)))
        return 0
    rows = [
        ["State", "Recv-Q", "Send-Q", "Local Address:Port", "Peer Address:Port", *(["Process"] if with_names else [])]
    ]
    for port, process in sockets:
        users = [f'users:(("{process.name}",pid={process.pid},fd=5))'] if with_names else []
        rows.append(["LISTEN", "0", "511", f"0.0.0.0:{port}", "0.0.0.0:*", *users])
    if no_title:
        rows = rows[1:]
    call.print(table(rows, (0, 5), "  ") if rows else "")
    return 0


@command("ip", "ifconfig", raw=True)
def ip(call: Call) -> int:
    words = [word for word in call.args if not word.startswith("-")]
    brief = any(word in ("-br", "-brief") for word in call.args)
    kind = words[0] if words else "addr"
    address = call.machine.address
    if kind in ("a", "ad", "addr", "address") or call.name == "ifconfig":
        if brief:
            call.print(f"lo               UNKNOWN        127.0.0.1/8\neth0             UP             {address}/24\n")
        else:
            call.print("1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536\n    inet 127.0.0.1/8 scope host lo\n")
            call.print(
                "2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500\n"
                f"    inet {address}/24 brd 10.0.0.255 scope global eth0\n"
            )
        return 0
    if kind in ("r", "ro", "route"):
        call.print(f"default via 10.0.0.1 dev eth0\n10.0.0.0/24 dev eth0 proto kernel scope link src {address}\n")
        return 0
    raise NotSimulated(f"'{kind[:40]}' is not supported here")


@command("ping", flags="q", valued="cWiwsI", mixed=True, idle="46AIWainsw")
def ping(call: Call) -> int:
    options = call.options
    name = call.require_operands("usage error: Destination address required", 2)[0]
    host = call.machine.hosts.find(name)
    if host is None:
        return call.complain(f"{name}: Name or service not known", 2)
    count = min(20, max(1, options.whole("c", 4)))
    call.machine.effects.note("fetched", f"ping:{name}")
    call.machine.clock.advance(count - 1)
    call.print(f"PING {name} ({host.address}) 56(84) bytes of data.\n")
    if host.reachable and not options.has("q"):
        for number in range(1, count + 1):
            call.print(f"64 bytes from {host.address}: icmp_seq={number} ttl=64 time={host.latency_ms:.2f} ms\n")
    n_received = count if host.reachable else 0
    lost = 0 if host.reachable else 100
    call.print(
        f"\n--- {name} ping statistics ---\n{count} packets transmitted, {n_received} received, "
        f"{lost}% packet loss, time {(count - 1) * 1000}ms\n"
    )
    if host.reachable:
        call.print(
            f"rtt min/avg/max/mdev = {host.latency_ms:.3f}/{host.latency_ms:.3f}/{host.latency_ms:.3f}/0.000 ms\n"
        )
    return 0 if host.reachable else 1


@command("dig", "nslookup", "host", "getent", raw=True)
def dig(call: Call) -> int:
    words = [
        word for word in call.args if not word.startswith(("+", "-", "@")) and word.upper() not in ("A", "IN", "ANY")
    ]
    for word in call.args:
        if word.upper() in ("MX", "TXT", "NS", "AAAA", "CNAME", "SOA", "PTR", "SRV") or word in ("-x", "+trace"):
            raise NotSimulated(f"'{word}' is not supported here; only addresses are known")
    if call.name == "getent":
        if words[:1] not in (["hosts"], ["ahosts"], ["passwd"]) or len(words) < 2:
            raise NotSimulated("only 'getent hosts NAME' and 'getent passwd NAME' are supported here")
        if words[0] == "passwd":
            lines = [
                line
                for line in (call.files.text_of("/etc/passwd") or "").splitlines()
                if line.startswith(f"{words[1]}:")
            ]
            call.print("".join(f"{line}\n" for line in lines))
            return 0 if lines else 2
        words = words[1:]
    if not words:
        raise UsageFault("a name is missing")
    name = words[0]
    host = call.machine.hosts.find(name)
    call.machine.effects.note("fetched", f"dns:{name}")
    match call.name:
        case "dig":
            answer = f"{name}.\t\t300\tIN\tA\t{host.address}\n" if host else ""
            if "+short" in call.args:
                call.print(f"{host.address}\n" if host else "")
            elif "+noall" in call.args:
                call.print(answer)
            else:
                status = "NOERROR" if host else "NXDOMAIN"
                section = f";; ANSWER SECTION:\n{answer}\n" if host else ""
                call.print(
                    f";; ->>HEADER<<- opcode: QUERY, status: {status}, id: 4711\n;; QUESTION SECTION:\n"
                    f";{name}.\t\tIN\tA\n\n{section};; Query time: 2 msec\n"
                )
            return 0
        case "getent":
            call.print(f"{host.address:<15} {name}\n" if host else "")
            return 0 if host else 2
        case "host":
            call.print(f"{name} has address {host.address}\n" if host else f"Host {name} not found: 3(NXDOMAIN)\n")
        case _:
            found = f"Name:\t{name}\nAddress: {host.address}\n" if host else f"** server can't find {name}: NXDOMAIN\n"
            call.print(f"Server:\t\t10.0.0.1\nAddress:\t10.0.0.1#53\n\n{found}")
    return 0 if host else 1


@command("nc", "ncat", "netcat", flags="z", valued="w", idle="vnw")
def nc(call: Call) -> int:
    """Whether a port can be reached, and nothing else."""
    if not call.options.has("z") or len(call.options.operands) < 2:
        raise NotSimulated("only 'nc -z HOST PORT' is supported here")
    name, port = call.options.operands[:2]
    host = call.machine.hosts.find(name)
    call.machine.effects.note("fetched", f"tcp:{name}:{port}")
    is_here = host is not None and host.address.startswith("127.")
    listening = {str(one) for process in call.machine.processes for one in process.ports}
    if host is None:
        return call.complain(f'getaddrinfo for host "{name}" port {port}: Name or service not known')
    if not host.reachable or (is_here and port not in listening):
        return call.complain(f"connect to {name} ({host.address}) port {port} (tcp) failed: Connection refused")
    call.say(f"Connection to {name} ({host.address}) {port} port [tcp/*] succeeded!\n")
    return 0
