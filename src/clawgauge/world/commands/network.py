"""curl and wget, on the web of this world."""

from __future__ import annotations

from clawgauge.world.commands.call import Call, NotSimulated, UsageFault, command, fill, unescape
from clawgauge.world.effects import FileFault, Refusal
from clawgauge.world.outside import Page, read_url


@command("curl")
def curl(call: Call) -> int:
    options = call.options
    method = options.value("X", "HEAD" if options.has("I") else "GET").upper()
    if (options.has("d", "F", "T") and not options.has("G")) or method not in ("GET", "HEAD"):
        raise NotSimulated("(6) only GET requests can be made from here", 6)
    urls = [*options.all("url"), *options.operands]
    if not urls:
        raise UsageFault("no URL specified", 2)
    quiet, retries = options.has("s") and not options.has("S"), min(5, options.whole("retry", 0))

    def transfer(url: str) -> int:
        url = url if "://" in url else f"http://{url}"
        if options.has("G") and options.has("d"):
            url += ("&" if "?" in url else "?") + "&".join(options.all("d"))
        try:
            page = _fetch(call, url, retries)
        except Refusal as refusal:
            return 6 if quiet else call.complain(f"(6) {refusal}", 6)
        if options.has("f") and page.status >= 400:
            return 22 if quiet else call.complain(f"(22) The requested URL returned error: {page.status}", 22)
        size = len(page.body.encode())
        head = f"HTTP/1.1 {page.status} {page.reason}\r\ncontent-type: {page.content_type}\r\n"
        head += f"retry-after: {page.retry_after_s}\r\n" if page.retry_after_s else ""
        head += f"content-length: {size}\r\n\r\n"
        shown = head if options.has("I") else head + page.body if options.has("i") else page.body
        code = _deliver(call, shown, options.value("o") or (_name_of(url) if options.has("O") else ""))
        values = {
            "http_code": str(page.status), "response_code": str(page.status), "size_download": str(size),
            "content_type": page.content_type, "url_effective": url, "time_total": "0.084", "time_connect": "0.012",
        }  # fmt: skip
        return call.print(unescape(fill(r"%()\{(\w+)\}", options.value("w"), values, "variable")), code)

    return call.each(urls, transfer)


def _fetch(call: Call, url: str, retries: int) -> Page:
    page = call.machine.web.fetch(url)
    while retries > 0 and page.status in (408, 429, 500, 502, 503, 504):
        retries -= 1
        call.machine.clock.advance(page.retry_after_s or 1)
        page = call.machine.web.fetch(url)
    return page


@command("wget")
def wget(call: Call) -> int:
    options = call.options
    url = call.require_operands("missing URL")[0]
    url, quiet, retries = url if "://" in url else f"http://{url}", options.has("q"), options.whole("t", 1) - 1
    try:
        page = _fetch(call, url, min(5, retries))
    except Refusal as refusal:
        return 4 if quiet else call.complain(f"{refusal}", 4)
    if page.status >= 400 or options.has("spider"):
        is_bad, words = page.status >= 400, f"ERROR {page.status}: {page.reason}.\n"
        return call.say("" if quiet else words if is_bad else "Remote file exists.\n", 8 if is_bad else 0)
    folder = f"{options.value('P').rstrip('/')}/" if options.has("P") else ""
    target = options.value("O") or folder + _name_of(url)
    code = _deliver(call, page.body, target)
    call.say("" if quiet or code or target == "-" else f"'{target}' saved [{len(page.body.encode())}]\n")
    return code


def _name_of(url: str) -> str:
    return read_url(url)[1].partition("?")[0].rpartition("/")[2] or "index.html"


def _deliver(call: Call, text: str, target: str) -> int:
    """To a file where one is named, else to standard output."""
    if not target or target == "-":
        return call.print(text)
    try:
        call.files.write(call.resolve(target), text)
    except FileFault as fault:
        return call.complain(f"(23) {target}: {fault}", 23)
    return 0
