"""The formats that have a name, each with a sample line that it parses."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from job.formats import apache, envoy, generic_json, nginx, services, w3c
from job.formats.format import Format
from job.formats.program import Program


class Entry(NamedTuple):
    """A format of the catalogue; `build` makes its program when it is first asked for."""

    name: str
    title: str
    build: Callable[[], Program]
    sample: str
    aliases: tuple[str, ...] = ()
    twins: tuple[tuple[str, str], ...] = ()


COMMON = '%h %l %u %t "%r" %>s %b'
COMBINED = COMMON + ' "%{Referer}i" "%{User-Agent}i"'
INGRESS_NGINX = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" '
    "$request_length $request_time [$proxy_upstream_name] [$proxy_alternative_upstream_name] $upstream_addr "
    "$upstream_response_length $upstream_response_time $upstream_status $req_id"
)
_CLOUDFRONT = (
    "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) "
    "cs(User-Agent) cs-uri-query"
)

_AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
_COMMON_SAMPLE = '192.0.2.10 - - [14/Mar/2024:09:26:53 +0000] "GET /pies?size=9 HTTP/1.1" 200 3141'
_COMBINED_SAMPLE = f'{_COMMON_SAMPLE} "https://www.example.com/" "{_AGENT}"'
_ELB_SAMPLE = (
    "192.0.2.10:50211 198.51.100.7:8080 0.000 0.021 0.000 200 200 412 3141 "
    f'"GET https://www.example.com:443/pies?size=9 HTTP/2.0" "{_AGENT}" TLS_AES_128_GCM_SHA256 TLSv1.3'
)
_HAPROXY_SAMPLE = "Mar 14 09:26:54 lb1 haproxy[911]: 192.0.2.10:50211 [14/Mar/2024:09:26:53.589] "

_ENTRIES = (
    Entry("combined", "Apache and nginx, their usual format", lambda: apache.compile_format(COMBINED), _COMBINED_SAMPLE,
          ("nginx", "apache", "nginx_combined", "ncsa", "ncsa_extended")),
    Entry("common", "Common log format, without referer and agent", lambda: apache.compile_format(COMMON),
          _COMMON_SAMPLE, ("clf",)),
    Entry("vhost_combined", "Combined with the virtual host (and its port) in front",
          lambda: apache.compile_format("%v:%p " + COMBINED), f"www.example.com:443 {_COMBINED_SAMPLE}",
          ("vhost", "vcombined")),
    Entry("vhost_common", "Common with the virtual host (and its port) in front",
          lambda: apache.compile_format("%v:%p " + COMMON), f"www.example.com:443 {_COMMON_SAMPLE}",
          ("vcommon", "common_vhost")),
    Entry("ingress_nginx", "Kubernetes' ingress-nginx", lambda: nginx.compile_template(INGRESS_NGINX),
          f"{_COMBINED_SAMPLE} 412 0.021 [shop-web-80] [] 198.51.100.7:8080 3141 0.020 200 "
          "4b2f0c6b7a1d4e0f9c3a5d8e7f601234", ("ingress", "nginx_ingress", "kubernetes")),
    Entry("json", "An object per line, any keys, nested ones by dots", generic_json.build,
          '{"time":"2024-03-14T09:26:53Z","remote_addr":"192.0.2.10","method":"GET","uri":"/pies?size=9",'
          '"status":200,"bytes":3141}', ("jsonl", "ndjson")),
    Entry("w3c", "W3C extended, columns named by #Fields lines (IIS)", w3c.unread,
          "#Fields: date time c-ip cs-method cs-uri-stem cs-uri-query sc-status sc-bytes time-taken\n"
          "2024-03-14 09:26:53 192.0.2.10 GET /pies size=9 200 3141 21", ("iis", "w3c_extended")),
    Entry("cloudfront", "Amazon CloudFront, columns named by #Fields lines", w3c.unread,
          _CLOUDFRONT + "\n2024-03-14\t09:26:53\tOSL50\t3141\t192.0.2.10\tGET\tcdn.example.com\t/pies\t200\t-\t"
          "Mozilla/5.0%20(X11;%20Linux%20x86_64)\tsize=9", ("aws_cloudfront",)),
    Entry("alb", "AWS Application Load Balancer", services.alb,
          f"https 2024-03-14T09:26:53.589793Z app/shop/50dc6c495c0c9188 {_ELB_SAMPLE} "
          "arn:aws:elasticloadbalancing:eu-west-9:000011112222:targetgroup/shop/73e2d6bc24d8a067 "
          '"Root=1-65f2c1ad-1a2b3c4d5e6f708192a3b4c5" "www.example.com" "session-reused" 0 '
          '2024-03-14T09:26:53.568000Z "forward" "-" "-" "198.51.100.7:8080" "200" "-" "-" TID_1a2b3c4d5e6f7081',
          ("awsalb", "aws_alb")),
    Entry("elb", "AWS Classic Load Balancer", services.elb, f"2024-03-14T09:26:53.589793Z shop-lb {_ELB_SAMPLE}",
          ("awselb", "aws_elb")),
    Entry("s3", "Amazon S3 server access log", services.s3,
          "79a59df900b949e5 pies [14/Mar/2024:09:26:53 +0000] 192.0.2.10 - 3E57427F3EXAMPLE WEBSITE.GET.OBJECT "
          'apple.html "GET /apple.html HTTP/1.1" 200 - 3141 3141 21 20 "-" "' + _AGENT + '" - '
          "Kx7vQ2mZp0EXAMPLE= - TLS_AES_128_GCM_SHA256 - pies.s3.example.com TLSv1.3 - -", ("awss3", "aws_s3")),
    Entry("haproxy_http", "HAProxy in HTTP mode (httplog, httpslog), with or without a syslog header", services.haproxy_http,
          _HAPROXY_SAMPLE + "www shop/web2 0/0/1/20/21 200 3141 - - ---- 12/11/2/1/0 0/0 {www.example.com} "
          '"GET /pies?size=9 HTTP/1.1"', ("haproxy",), (("accept_time_local", "time"),)),
    Entry("haproxy_tcp", "HAProxy in TCP mode, with or without a syslog header", services.haproxy_tcp,
          _HAPROXY_SAMPLE + "mail mx/in1 0/1/5021 3141 -- 12/11/2/1/0 0/0", (), (("accept_time_local", "time"),)),
    Entry("envoy", "Envoy's default access log", lambda: envoy.compile_format(envoy.DEFAULT),
          '[2024-03-14T09:26:53.589Z] "GET /pies?size=9 HTTP/1.1" 200 - 0 3141 21 20 "192.0.2.10" "' + _AGENT
          + '" "d6f8a1c2-6d0e-4b8f-9a53-0f1e2d3c4b5a" "www.example.com" "198.51.100.7:8080"'),
    Entry("istio", "Istio's access log", lambda: envoy.compile_format(envoy.ISTIO),
          '[2024-03-14T09:26:53.589Z] "GET /pies?size=9 HTTP/1.1" 200 - via_upstream - "-" 0 3141 21 20 "-" "' + _AGENT
          + '" "d6f8a1c2-6d0e-4b8f-9a53-0f1e2d3c4b5a" "www.example.com" "198.51.100.7:8080" '
          "outbound|80||shop.default.svc 198.51.100.6:44322 198.51.100.8:80 192.0.2.10:50211 - default"),
    Entry("caddy", "Caddy's JSON access log", services.caddy,
          '{"level":"info","ts":1710408413.589793,"logger":"http.log.access","msg":"handled request","request":{'
          '"remote_ip":"192.0.2.10","remote_port":"50211","client_ip":"192.0.2.10","proto":"HTTP/2.0","method":"GET",'
          '"host":"www.example.com","uri":"/pies?size=9","headers":{"User-Agent":["curl/8.5.0"]}},"bytes_read":0,'
          '"user_id":"","duration":0.021,"size":3141,"status":200,"resp_headers":{"Content-Type":["text/html"]}}', (),
          (("duration_s", "request_time"),)),
    Entry("traefik", "Traefik's common log format", services.traefik,
          f'{_COMBINED_SAMPLE} 912 "shop@docker" "http://198.51.100.7:8080" 21ms', ("traefikclf", "traefik_clf")),
    Entry("traefik_json", "Traefik's JSON access log", services.traefik_json,
          '{"ClientHost":"192.0.2.10","ClientPort":"50211","ClientUsername":"-","DownstreamContentSize":3141,'
          '"DownstreamStatus":200,"Duration":21000000,"RequestCount":912,"RequestHost":"www.example.com",'
          '"RequestMethod":"GET","RequestPath":"/pies?size=9","RequestProtocol":"HTTP/2.0","RequestScheme":"https",'
          '"RouterName":"shop@docker","StartUTC":"2024-03-14T09:26:53.589793238Z"}', ()),
    Entry("squid", "Squid's native format", services.squid,
          "1710408413.589     21 192.0.2.10 TCP_MISS/200 3141 GET http://www.example.com/pies?size=9 - "
          "HIER_DIRECT/198.51.100.7 text/html", ()),
    Entry("cloud_storage", "Google Cloud Storage usage log", services.cloud_storage,
          '"1710408413589793","192.0.2.10","1","","GET","/pies/apple.html","200","0","3141","21000",'
          '"storage.example.com","","curl/8.5.0","AAANsUmaKx7vQ2mZp0","GET_Object","pies","apple.html"',
          ("cloudstorage", "gcs")),
)  # fmt: skip

ENTRIES = {entry.name: entry for entry in _ENTRIES}
NAMES = {name: entry.name for entry in _ENTRIES for name in (entry.name, *entry.aliases)}
"""Every name and alias with the name of its entry."""


def key(name: str) -> str:
    """How a name is looked up: upper or lower case, with `_`, `-`, a dot or nothing between its words."""
    return name.strip().lower().replace("-", "_").replace(".", "_").replace(" ", "_")


_BY_KEY = {key(name).replace("_", ""): target for name, target in NAMES.items()}


def entry_name(name: str) -> str | None:
    """The entry that `name` means, or None."""
    return _BY_KEY.get(key(name).replace("_", ""))


@cache
def named(name: str) -> Format:
    """The format of an entry."""
    entry = ENTRIES[name]
    return Format(name, entry.build(), sample=entry.sample, title=entry.title, twins=dict(entry.twins))
