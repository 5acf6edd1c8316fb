"""Commands on the web: curl, wget."""

from clawgauge.world.commands.call import TABLE, Call, NotSimulated, Options, command
from clawgauge.world.commands.layout import fill, unescape
from clawgauge.world.effects import FileFault, Refusal
from clawgauge.world.web import Page, read_url

_WRITE_OUT: dict[str, str] = TABLE["curl"]["write_out"]
_WORTH_A_RETRY = (408, 429, 500, 502, 503, 504)
_MAX_RETRIES = 5
# Exit codes of curl, and of wget.
_NO_HOST = 6
_HTTP_ERROR = 22
_NOT_WRITTEN = 23
_WGET_NO_HOST = 4
_WGET_HTTP_ERROR = 8


@command("curl")
def curl(call: Call) -> int:
    options = call.options
    method = options.value("X", "HEAD" if options.has("I") else "GET").upper()
    sends_body = options.has("d", "F", "T") and not options.has("G")
    if sends_body or method not in ("GET", "HEAD"):
        raise NotSimulated("(6) only GET requests can be made from here", _NO_HOST)
    urls = [*options.all("url"), *options.operands]
    if not urls:
        raise Refusal("no URL specified", 2)
    n_retries = options.whole("retry", 0)
    return call.each(urls, lambda url, _: _transfer(call, _with_scheme(url), n_retries))


def _transfer(call: Call, url: str, n_retries: int) -> int:
    """Fetch one address with curl, and print or write what is there."""
    options = call.options
    is_quiet = options.has("s") and not options.has("S")
    if options.has("G") and options.has("d"):
        separator = "&" if "?" in url else "?"
        url += separator + "&".join(options.all("d"))
    try:
        page = _fetch(call, url, n_retries)
    except Refusal as refusal:
        return _NO_HOST if is_quiet else call.complain(f"(6) {refusal}", _NO_HOST)
    if options.has("f") and page.status >= 400:
        if is_quiet:
            return _HTTP_ERROR
        return call.complain(f"(22) The requested URL returned error: {page.status}", _HTTP_ERROR)
    code = _deliver(call, _shown_page(page, options), _curl_target(url, options))
    return call.print(_write_out(page, url, options), code)


def _with_scheme(url: str) -> str:
    return url if "://" in url else f"http://{url}"


def _shown_page(page: Page, options: Options) -> str:
    """The body, the head, or both."""
    head = f"HTTP/1.1 {page.status} {page.reason}\r\ncontent-type: {page.content_type}\r\n"
    if page.retry_after_s:
        head += f"retry-after: {page.retry_after_s}\r\n"
    head += f"content-length: {_n_bytes(page)}\r\n\r\n"
    if options.has("I"):
        return head
    return head + page.body if options.has("i") else page.body


def _n_bytes(page: Page) -> int:
    return len(page.body.encode())


def _curl_target(url: str, options: Options) -> str:
    """The file that is written; empty where the page is printed."""
    target = options.value("o")
    if not target and options.has("O"):
        target = _file_name_of(url)
    folder = options.value("output-dir").rstrip("/")
    return f"{folder}/{target}" if folder and target else target


def _write_out(page: Page, url: str, options: Options) -> str:
    """What `-w` prints."""
    values = {}
    for name, text in _WRITE_OUT.items():
        values[name] = text.format(page, size=_n_bytes(page), url=url)
    return unescape(fill(r"%()\{(\w+)\}", options.value("w"), values, "variable"))


def _fetch(call: Call, url: str, n_retries: int) -> Page:
    page = call.machine.web.fetch(url)
    for _ in range(min(_MAX_RETRIES, n_retries)):
        if page.status not in _WORTH_A_RETRY:
            break
        call.machine.clock.advance(page.retry_after_s or 1)
        page = call.machine.web.fetch(url)
    return page


@command("wget")
def wget(call: Call) -> int:
    options = call.options
    operands = call.require_operands("missing URL")
    if len(operands) > 1:
        raise NotSimulated("more than one address in a call is not supported here")
    url = _with_scheme(operands[0])
    is_quiet = options.has("q")
    n_retries = options.whole("t", 1) - 1
    try:
        page = _fetch(call, url, n_retries)
    except Refusal as refusal:
        return _WGET_NO_HOST if is_quiet else call.complain(f"{refusal}", _WGET_NO_HOST)
    if page.status >= 400:
        report = f"ERROR {page.status}: {page.reason}.\n"
        return call.say("" if is_quiet else report, _WGET_HTTP_ERROR)
    if options.has("spider"):
        return call.say("" if is_quiet else "Remote file exists.\n", 0)
    target = _wget_target(url, options)
    code = _deliver(call, page.body, target)
    if not is_quiet and code == 0 and target != "-":
        call.say(f"'{target}' saved [{_n_bytes(page)}]\n")
    return code


def _wget_target(url: str, options: Options) -> str:
    folder = f"{options.value('P').rstrip('/')}/" if options.has("P") else ""
    return options.value("O") or folder + _file_name_of(url)


def _file_name_of(url: str) -> str:
    path = read_url(url).url.partition("?")[0]
    return path.rpartition("/")[2] or "index.html"


def _deliver(call: Call, text: str, target: str) -> int:
    """Write what was fetched to a file, or print it where there is none."""
    if target in ("", "-"):
        return call.print(text)
    try:
        call.files.write(call.resolve(target), text)
    except FileFault as fault:
        return call.complain(f"(23) {target}: {fault}", _NOT_WRITTEN)
    return 0
