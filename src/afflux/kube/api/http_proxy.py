"""The HTTP proxy for a server, from the environment.

The rules are those of Go's standard library, and so of kubectl: HTTPS_PROXY or HTTP_PROXY by the
scheme of the server, in upper or lower case; NO_PROXY with host names, domains, addresses, networks
and ports; never a proxy for the local host.
"""

import os
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from afflux.model.errors import InputError

SCHEMES = ("http", "https")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def proxy_for(server: str) -> str:
    """The URL of the proxy for this server, or an empty string."""
    url = urlsplit(server)
    name = "HTTPS_PROXY" if url.scheme == "https" else "HTTP_PROXY"
    proxy = _environment(name)
    host, port = url.hostname or "", url.port or _DEFAULT_PORTS.get(url.scheme, 443)
    if not proxy or _is_excepted(host, port, _environment("NO_PROXY")):
        return ""
    # As in Go, a bare host:port is an HTTP proxy.
    return checked_proxy(proxy if "://" in proxy else f"http://{proxy}", f"${name}")


def checked_proxy(url: str, field: str) -> str:
    """The URL if it can be used; the InputError leaves it out, as it may hold a password."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in SCHEMES and bool(parts.hostname) and (parts.port or 1) > 0
        scheme = parts.scheme
    except ValueError:
        usable, scheme = False, ""
    if usable:
        return url
    if scheme.startswith("socks5"):
        raise InputError(
            f"{field}: a {scheme} proxy, expected http://host:port or https://host:port; "
            "SOCKS is not supported"
        )
    raise InputError(f"{field}: not usable, expected http://host:port or https://host:port")


def _environment(name: str) -> str:
    return os.environ.get(name) or os.environ.get(name.lower()) or ""


def _is_excepted(host: str, port: int, exceptions: str) -> bool:
    address = _address(host)
    if host == "localhost" or (address is not None and address.is_loopback):
        return True
    entries = [entry.strip().lower() for entry in exceptions.split(",")]
    return any(_matches(host.lower().rstrip("."), port, address, e) for e in entries if e)


def _matches(host: str, port: int, address: IPv4Address | IPv6Address | None, entry: str) -> bool:
    if entry == "*":
        return True
    if "/" in entry:
        try:
            return address is not None and address in ip_network(entry, strict=False)
        except ValueError:
            return False
    name, wanted_port = _split_port(entry)
    if wanted_port is not None and wanted_port != port:
        return False
    if (wanted := _address(name)) is not None:
        return wanted == address
    # `example.org` is the domain and its subdomains, `.example.org` only the subdomains.
    domain = name.removeprefix("*").lstrip(".")
    inside = bool(domain) and host.endswith(f".{domain}")
    return inside or (not name.startswith((".", "*")) and host == domain)


def _split_port(entry: str) -> tuple[str, int | None]:
    if _address(entry) is not None:
        return entry, None
    name, colon, digits = entry.rpartition(":")
    if colon and digits.isdigit():
        return name.strip("[]"), int(digits)
    return entry.strip("[]"), None


def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text.strip("[]"))
    except ValueError:
        return None
