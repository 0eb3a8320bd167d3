-- One query a line; test_spark_renders.py has Spark analyse and run each.
SELECT count(*) FROM access
SELECT path, count(*) AS hits FROM access GROUP BY path ORDER BY hits DESC LIMIT 10
SELECT path p, status, count(*), sum(bytes), avg(bytes), min(bytes), max(path) FROM access GROUP BY 1, 2
SELECT count(path), count(path, method), count(DISTINCT path), count(DISTINCT path, status), count(1) FROM access
SELECT count_if(status >= 400), count(*) FILTER (WHERE status = 200), sum(bytes) FILTER (WHERE cached) FROM access
SELECT sum(request_time), avg(request_time), min(request_time), max(request_time) FROM access
SELECT sum(ratio), avg(ratio), min(ratio), max(ratio), min(cached), max(time) FROM access
SELECT approx_count_distinct(path), approx_percentile(bytes, 0.5), approx_percentile(ratio, array(0.5, 1)) FROM access
SELECT window(time, '1 minute') AS w, count(*) FROM access GROUP BY w
SELECT window(time, '1 minute', '30 seconds') AS w, path, count(*) c FROM access GROUP BY ALL ORDER BY c DESC LIMIT 2
SELECT window.start, window.end, count(*) FROM access GROUP BY window(time, INTERVAL 1 HOUR) HAVING count(*) > 1
SELECT w.start, w.end, c FROM (SELECT window(time, '1 hour') w, count(*) c FROM access GROUP BY w) GROUP BY ALL
SELECT DISTINCT lower(method), upper(path) FROM access WHERE status BETWEEN 200 AND 499
SELECT avg(hits), max(hits) FROM (SELECT path, count(*) AS hits FROM access GROUP BY path) t WHERE t.hits > 0
SELECT w.start, count(*) FROM (SELECT window(time, '1 hour') w, path FROM access GROUP BY ALL) GROUP BY w.start
SELECT status + 1, status - 1, status * 2, status / 2, status DIV 3, status % 7, -status, count(*) FROM access GROUP BY ALL
SELECT bytes + bytes a, bytes * bytes b, bytes DIV 0 c, bytes / 0 d, bytes % 0 e, abs(bytes) f FROM access GROUP BY ALL
SELECT bytes DIV status a, bytes DIV -1 b, request_time DIV 0.5 c, request_time DIV request_time d FROM access GROUP BY ALL
SELECT request_time + 1 a, request_time * 1000 b, request_time / 3 c, request_time % 0.5 d FROM access GROUP BY ALL
SELECT request_time * bytes a, request_time * ratio b, request_time - bytes c, -request_time d FROM access GROUP BY ALL
SELECT ratio + 1 a, ratio * 2.5 b, ratio / 0 c, ratio % 2 d, -ratio e, abs(ratio) f, ratio - bytes g FROM access GROUP BY ALL
SELECT floor(ratio) a, ceil(ratio) b, floor(request_time) c, ceil(request_time) d, floor(bytes) e FROM access GROUP BY ALL
SELECT round(request_time, 2) a, round(request_time) b, round(request_time, -1) c, round(ratio, 1) d FROM access GROUP BY ALL
SELECT round(bytes) a, round(bytes, -2) b, round(9223372036854775807, -1) c FROM access GROUP BY ALL
SELECT status = 200 a, status <> 200 b, status <=> NULL c, path < 'b' d, ratio >= 1 e FROM access GROUP BY ALL
SELECT request_time > 1 a, request_time = 0.125 b, request_time < bytes c, request_time >= ratio d FROM access GROUP BY ALL
SELECT status = '200' a, '404' = status b, ratio = '0.5' c, time > '2024-05-01' d FROM access GROUP BY ALL
SELECT status IN (200, 404) a, path IN ('/a', NULL) b, status NOT IN (1, 2) c, status IN (200, 1.5) d FROM access GROUP BY ALL
SELECT count(*) FROM access WHERE cached AND NOT (status > 400 OR path IS NULL) AND cached IS NOT FALSE
SELECT path IS NULL a, path IS NOT NULL b, cached IS TRUE c, cached IS NOT TRUE d FROM access GROUP BY ALL
SELECT CASE WHEN status < 400 THEN 'ok' WHEN status < 500 THEN 'client' ELSE 'server' END c, count(*) FROM access GROUP BY c
SELECT CASE status WHEN 200 THEN 1 WHEN 404 THEN 2.5 END c, if(cached, 1, 2) d, nvl2(path, 1, 0) e FROM access GROUP BY ALL
SELECT coalesce(bytes, 0) a, ifnull(path, '-') b, nvl(request_time, 0) c, nullif(status, 200) d, nullif(status, 2.5) e FROM access GROUP BY ALL
SELECT greatest(status, bytes) a, least(status, request_time) b, greatest(ratio, 1) c FROM access GROUP BY ALL
SELECT CAST(path AS BIGINT) a, CAST(status AS STRING) b, try_cast(path AS DOUBLE) c, CAST(bytes AS DECIMAL(5, 2)) d FROM access GROUP BY ALL
SELECT CAST(ratio AS BIGINT) a, CAST(request_time AS BIGINT) b, CAST(cached AS BIGINT) c, CAST(status AS BOOLEAN) d FROM access GROUP BY ALL
SELECT CAST(time AS BIGINT) a, CAST(time AS DOUBLE) b, CAST(time AS STRING) c, CAST(status AS TIMESTAMP) d FROM access GROUP BY ALL
SELECT bytes::DOUBLE a, path::TIMESTAMP b, ratio::DECIMAL(10, 3) c, time::DECIMAL(20, 6) d FROM access GROUP BY ALL
SELECT path LIKE '/a%' a, path NOT LIKE '/_' b, path LIKE '/!_' ESCAPE '!' c, path LIKE '\\%' d FROM access GROUP BY ALL
SELECT path RLIKE '^/[a-z]+$' a, path REGEXP r'\s' b, regexp_extract(path, '/(.)', 1) c FROM access GROUP BY ALL
SELECT path RLIKE r'(?i)ü\b' a, regexp_extract(uri, r'([\w.%-]+)\?(\S*)', 2) b FROM access GROUP BY ALL
SELECT lower(path) a, upper(path) b, ucase(path) c, length(path) d, char_length(path) e FROM access GROUP BY ALL
SELECT trim(path) a, trim(BOTH '/' FROM path) b, ltrim('/', path) c, rtrim(path) d, btrim(path, '/a') e FROM access GROUP BY ALL
SELECT substr(path, 2) a, substring(path, -2, 1) b, substr(path, status, bytes) c, left(path, 2) d FROM access GROUP BY ALL
SELECT split_part(path, '/', 2) a, split_part(path, '/', status - 200) b, split_part(path, '', 1) c FROM access GROUP BY ALL
SELECT concat(method, ' ', status) a, path || '?' || query b, replace(path, '/') c, replace(path, 'a', 'b') d FROM access GROUP BY ALL
SELECT startswith(path, '/a') a, endswith(path, 'a') b, contains(path, 'a') c FROM access GROUP BY ALL
SELECT parse_url(uri, 'HOST') a, parse_url(uri, 'QUERY', 'x') b, parse_url(uri, 'QUERY', 'a.b') c FROM access GROUP BY ALL
SELECT url_decode(path) a, url_decode(query) b FROM access GROUP BY ALL
SELECT date_trunc('HOUR', time) a, date_trunc('week', time) b, date_trunc('mon', time) c FROM access GROUP BY ALL
SELECT year(time) a, quarter(time) b, month(time) c, week(time) d, day(time) e, dayofweek(time) f FROM access GROUP BY ALL
SELECT hour(time) a, minute(time) b, second(time) c, dayofyear(time) d, extract(DOW FROM time) e FROM access GROUP BY ALL
SELECT unix_micros(time) a, unix_seconds(time) b, timestamp_seconds(status) c FROM access GROUP BY ALL
SELECT timestamp_seconds(bytes) a, timestamp_seconds(request_time) b, unix_micros(timestamp_seconds(ratio)) c FROM access GROUP BY ALL
SELECT count(*) FROM access WHERE time >= TIMESTAMP '2024-05-01 10:00:00' AND time < '2024-05-02'
SELECT 'it''s' a, "q" b, 'tab\t nul\0 bs\\ uml\u00fc' c, NULL d, 1e3 e, 1.50 f, TRUE g, count(*) h FROM access
SELECT path, max(bytes) m FROM access GROUP BY path HAVING m > 10 AND count(*) < 100 ORDER BY sum(bytes) DESC NULLS FIRST, path LIMIT 3
SELECT upper(path) AS path, count(*) FROM access GROUP BY path HAVING path > 'A' ORDER BY path
SELECT count(*) AS `#key0`, path AS `window`, method AS `select` FROM access GROUP BY path, method
SELECT path, count(*) FROM access WHERE 1 = 0 GROUP BY path LIMIT 0
SELECT 1 + count(*) a, count(*) / 2 b, CASE WHEN count(*) > 1 THEN max(path) END c FROM access
SELECT 9223372036854775807 + count(*) a, CAST(max(path) AS BIGINT) b FROM access
