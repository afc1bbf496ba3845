"""Requests as bytes, and those that no proxy may let pass."""

from __future__ import annotations

HOST = b"Host: a\r\n"
CHUNKED = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"


def head(*lines: bytes, line: bytes = b"POST / HTTP/1.1") -> bytes:
    return b"\r\n".join((line, b"Host: a", *lines)) + b"\r\n\r\n"


# Each of these is read differently by some other parser on the way.
AMBIGUOUS = {
    "length-then-chunked": head(b"Content-Length: 5", b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "chunked-then-length": head(b"Transfer-Encoding: chunked", b"Content-Length: 5") + b"0\r\n\r\n",
    "two-equal-lengths": head(b"Content-Length: 1", b"Content-Length: 1") + b"x",
    "two-lengths": head(b"Content-Length: 1", b"Content-Length: 2") + b"xx",
    "list-of-lengths": head(b"Content-Length: 1, 1") + b"x",
    "signed-length": head(b"Content-Length: +1") + b"x",
    "negative-length": head(b"Content-Length: -1") + b"x",
    "hexadecimal-length": head(b"Content-Length: 0x1") + b"x",
    "empty-length": head(b"Content-Length: ") + b"x",
    "inner-space-in-length": head(b"Content-Length: 1 1") + b"x",
    "overflowing-length": head(b"Content-Length: 99999999999999999999999") + b"x",
    "folded-header": head(b"X: a\r\n b", b"Content-Length: 0"),
    "tab-folded-header": head(b"X: a\r\n\tb", b"Content-Length: 0"),
    "folded-first-header": b"POST / HTTP/1.1\r\n Host: a\r\n\r\n",
    "bare-cr-in-value": head(b"X: a\rContent-Length: 5"),
    "bare-cr-ends-line": b"GET / HTTP/1.1\rHost: a\r\r",
    "bare-lf-ends-request-line": b"GET / HTTP/1.1\nHost: a\n\n",
    "bare-lf-ends-header": b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n",
    "space-before-colon": head(b"Transfer-Encoding : chunked"),
    "nul-in-value": head(b"X: a\x00b"),
    "empty-name": head(b": x"),
    "no-colon": head(b"foo"),
    "identity-coding": head(b"Transfer-Encoding: identity"),
    "unknown-coding": head(b"Transfer-Encoding: xchunked") + b"0\r\n\r\n",
    "list-of-codings": head(b"Transfer-Encoding: gzip, chunked") + b"0\r\n\r\n",
    "chunked-twice": head(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked") + b"0\r\n\r\n",
    "chunked-then-identity": head(b"Transfer-Encoding: chunked", b"Transfer-Encoding: identity")
    + b"0\r\n\r\n",
    "identity-then-chunked": head(b"Transfer-Encoding: identity", b"Transfer-Encoding: chunked")
    + b"0\r\n\r\n",
    "chunked-twice-in-one-line": head(b"Transfer-Encoding: chunked, chunked") + b"0\r\n\r\n",
    "quoted-coding": head(b'Transfer-Encoding: "chunked"') + b"0\r\n\r\n",
    "coding-with-parameter": head(b"Transfer-Encoding: chunked;a=b") + b"0\r\n\r\n",
    "empty-coding-and-length": head(b"Transfer-Encoding: ", b"Content-Length: 2") + b"ab",
    "length-in-trailer": CHUNKED + b"1\r\nx\r\n0\r\nContent-Length: 9\r\nTransfer-Encoding: x\r\n\r\n",
    "lf-behind-chunk": CHUNKED + b"1\r\nx\n0\r\n\r\n",
    "quoted-line-end-in-chunk-extension": CHUNKED + b'1;a="\r\n"\r\nx\r\n0\r\n\r\n',
    "bare-cr-in-chunk-extension": CHUNKED + b"1;a\rb\r\nx\r\n0\r\n\r\n",
    "vertical-tab-in-coding": head(b"Transfer-Encoding: \x0bchunked") + b"0\r\n\r\n",
    "chunked-in-http-1.0": head(b"Transfer-Encoding: chunked", line=b"POST / HTTP/1.0") + b"0\r\n\r\n",
    "negative-chunk": CHUNKED + b"-1\r\n\r\n",
    "prefixed-chunk": CHUNKED + b"0x1\r\nx\r\n0\r\n\r\n",
    "space-behind-chunk-size": CHUNKED + b"1 \r\nx\r\n0\r\n\r\n",
    "lf-behind-chunk-size": CHUNKED + b"1\nx\r\n0\r\n\r\n",
    "lf-in-chunk-extension": CHUNKED + b"1;a\nb\r\nx\r\n0\r\n\r\n",
    "chunk-longer-than-said": CHUNKED + b"1\r\nxx0\r\n\r\n",
    "overflowing-chunk": CHUNKED + b"fffffffffffffffff\r\nx\r\n0\r\n\r\n",
    "two-hosts": head(b"Host: b"),
    "two-hosts-and-an-absolute-target": head(b"Host: b", line=b"GET http://c/ HTTP/1.1"),
    "no-host": b"GET / HTTP/1.1\r\n\r\n",
    "no-host-and-an-absolute-target": b"GET http://a/ HTTP/1.1\r\n\r\n",
    "empty-host": b"GET / HTTP/1.1\r\nHost:\r\n\r\n",
    "spaces-for-a-host": b"GET / HTTP/1.1\r\nHost: \t \r\n\r\n",
    "empty-host-in-absolute-target": head(line=b"GET http:///b HTTP/1.1"),
    "space-in-host": b"GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
    "path-in-host": b"GET / HTTP/1.1\r\nHost: a/c\r\n\r\n",
    "user-in-host": b"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
    "user-in-absolute-target": head(line=b"GET http://u@a/ HTTP/1.1"),
    "word-for-a-port": b"GET / HTTP/1.1\r\nHost: a:http\r\n\r\n",
    "port-alone-for-a-host": b"GET / HTTP/1.1\r\nHost: :80\r\n\r\n",
    "address-without-brackets": b"GET / HTTP/1.1\r\nHost: ::1\r\n\r\n",
    "address-without-its-end": b"GET / HTTP/1.1\r\nHost: [::1\r\n\r\n",
    "half-a-percent-in-host": b"GET / HTTP/1.1\r\nHost: a%2\r\n\r\n",
    "letter-beyond-ascii-in-host": b"GET / HTTP/1.1\r\nHost: \xe4\r\n\r\n",
    "space-in-target": head(line=b"GET /a b HTTP/1.1"),
    "control-in-target": head(line=b"GET /a\x01b HTTP/1.1"),
    "fragment-in-target": head(line=b"GET /a#b HTTP/1.1"),
    "fragment-in-absolute-target": head(line=b"GET http://a/b#c HTTP/1.1"),
    "fragment-behind-query": head(line=b"GET /a?b#c HTTP/1.1"),
    "unknown-method": head(line=b"FOO / HTTP/1.1"),
    "http-2-preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
}
