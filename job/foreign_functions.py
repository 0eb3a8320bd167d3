"""What to write here for functions of other engines: MySQL, PostgreSQL, ClickHouse, DuckDB, Splunk, Loki, Kusto."""

from __future__ import annotations

import re

_PERCENTILE = re.compile(r"p(?:erc)?(\d{1,2})|quantile(?:exact|timing|tdigest|_cont|_disc)?")
_START_OF = re.compile(r"tostartof(second|minute|hour|day|week|month|quarter|year)")
_CAST = {"tostring": "STRING", "to_string": "STRING", "toint": "BIGINT", "toint64": "BIGINT", "to_number": "BIGINT"}
_CAST |= {"touint64": "BIGINT", "tonumber": "BIGINT", "tofloat": "DOUBLE", "tofloat64": "DOUBLE", "todatetime": "TIMESTAMP"}

_MEANINGS = {
    "Write count(DISTINCT x), or approx_count_distinct(x).": "uniq uniqexact uniqcombined uniqhll12 dc count_distinct "
    "distinct_count countdistinct approx_distinct dcount hll cardinality",
    "Write count_if(condition).": "countif sumif count_where",
    "Write the aggregate with FILTER (WHERE condition).": "avgif minif maxif uniqif",
    "A group keeps numbers, not lists; add the column to GROUP BY.": "group_concat string_agg listagg array_agg "
    "grouparray groupuniqarray make_set make_list values wm_concat",
    "Group by the column with ORDER BY count(*) DESC LIMIT 10.": "topk top approx_top_count approx_most_frequent mode",
    "Group by window(time, '1 minute') and divide by its seconds.": "rate irate increase timechart per_second",
    "Write window(time, '1 minute') in GROUP BY.": "time_bucket tumble tumblingwindow hop bin bin_auto time_slice "
    "date_bin tostartofinterval timeslice date_histogram bucket",
    "Write date_trunc('DAY', time).": "todate date_only",
    "Write date_trunc('HOUR', time), or CAST(time AS STRING) with substr.": "to_char strftime formatdatetime "
    "format_datetime time_format toyyyymmdd toyyyymm",
    "Compare with TIMESTAMP '2024-05-01 10:00:00', or give the time as a parameter, :since.": "date_add date_sub dateadd "
    "adddate subdate datesub timestampadd ago relative_time subtracthours addhours",
    "Subtract seconds: unix_seconds(a) - unix_seconds(b).": "datediff date_diff timestampdiff age timediff",
    "Write unix_seconds(t).": "tounixtimestamp epoch to_unix_timestamp",
    "Write timestamp_seconds(n).": "fromunixtimestamp to_datetime",
    "Write hour(time).": "tohour",
    "Write minute(time).": "tominute",
    "Write contains(text, search), or regexp_extract.": "position strpos charindex indexof positioncaseinsensitive",
    "Write x RLIKE 'pattern'.": "match regexp_matches regexp_match regexpmatch rlike_",
    "Write regexp_extract(text, pattern, group).": "extractall regexp_extract_all regexp_capture rex",
    "Write count_if(x RLIKE 'pattern'), or length(x) - length(replace(x, 'a', '')).": "regexp_count countsubstrings",
    "Write concat(a, ' ', b).": "concat_ws format printf format_string",
    "Write split_part(text, delimiter, number).": "splitbychar splitbystring string_split regexp_split_to_array element_at",
    "Write parse_url(x, 'HOST').": "domain url_extract_host net_host hostname",
    "Write parse_url(x, 'PATH').": "url_extract_path cutquerystring",
    "Write parse_url(x, 'QUERY', 'key').": "extracturlparameter url_extract_parameter",
    "Write url_decode(x).": "decodeurlcomponent urldecode url_decode_",
    "With the json format, name the key: user.id.": "json_extract json_value json_extract_scalar json_query jsonextract "
    "jsonextractstring json_extract_string jsonextractint visitparamextractstring spath json_extract_path_text",
    "Write lower(x).": "tolower lowerutf8 to_lower",
    "Write upper(x).": "toupper upperutf8 to_upper",
    "Write length(x).": "strlen lengthutf8 octet_length datalength",
    "Write substr(text, from, length).": "mid substringutf8 right",
    "Write replace(text, a, b).": "replaceall replaceone",
    "Write if(condition, a, b), or CASE WHEN condition THEN a ELSE b END.": "iif ifelse multiif decode",
    "Write coalesce(x, y).": "isnull_ zeroifnull",
    "There is no such aggregate; approx_percentile(x, array(0.5, 0.95)) shows the spread.": "stddev stddev_pop "
    "stddev_samp stdev std variance var_pop var_samp varpop varsamp histogram width_bucket",
    "Write min(x) or max(x): which line comes first is not kept.": "earliest latest arg_max arg_min argmax argmin max_by "
    "min_by anylast any",
    "Window functions rank rows of a result; ORDER BY with LIMIT often does.": "row_number rank dense_rank lag lead ntile",
    "There are no such functions of numbers; + - * / %, abs, floor, ceil and round there are.": "sqrt pow power exp ln log "
    "log2 log10 sin cos tan sign pi",
    "Compare the text: remote_addr LIKE '10.%'.": "cidrmatch isipaddressinrange ipv4stringtonum inet_aton ip_in_range inet",
}
_ADVICE = {name: advice for advice, names in _MEANINGS.items() for name in names.split()}


def advice_on(name: str) -> str:
    """What to write here for a function that some other engine calls `name`; "" where none is known."""
    name = name.lower()
    percentile = _PERCENTILE.fullmatch(name)
    if percentile:
        share = f"0.{percentile[1].rjust(2, '0')}" if percentile[1] else "0.95"
        return f"Write approx_percentile(x, {share})."
    start = _START_OF.fullmatch(name)
    if start:
        return f"Write date_trunc('{start[1].upper()}', time)."
    if name in _CAST:
        return f"Write CAST(x AS {_CAST[name]})."
    return _ADVICE.get(name, "")
