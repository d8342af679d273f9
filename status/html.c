/* Licensed under the Apache License, Version 2.0 (the "License");
 * you may not use this file except in compliance with the License.
 * You may obtain a copy of the License at
 *
 *     http://www.apache.org/licenses/LICENSE-2.0
 *
 * Unless required by applicable law or agreed to in writing, software
 * distributed under the License is distributed on an "AS IS" BASIS,
 * WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
 * See the License for the specific language governing permissions and
 * limitations under the License.
 */

/* The page for people.  It is whole without its script, which asks for the JSON
 * rendering every other second and puts the figures in place.  It needs nothing
 * but itself, and the browser is told to load nothing else.
 */

#include "apr_strings.h"
#include "http_core.h"
#include "http_protocol.h"

#include "status/model.h"

/* Of the chart; its unit is what its view box says. */
#define CHART_WIDTH 600.0
#define CHART_HEIGHT 100.0
#define CHART_HIGHEST 95.0

static const char policy[] =
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

/* clang-format off */
static const char style[] =
    ":root{color-scheme:light dark;--back:#fff;--text:#1c2330;--soft:#566072;"
    "--line:#d5dae2;--card:#f4f6f9;--mark:#1f5fbf;--wait:#b4540a}\n"
    "@media(prefers-color-scheme:dark){:root{--back:#14181f;--text:#e7eaf0;"
    "--soft:#a3adbd;--line:#343c4a;--card:#1d232d;--mark:#7db0ff;"
    "--wait:#f0a35e}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:1.25rem;max-width:72rem;background:var(--back);"
    "color:var(--text);font:1rem/1.5 system-ui,sans-serif}\n"
    "h1{margin:0;font-size:1.6rem}h2{margin:2.25rem 0 .5rem;font-size:1.15rem}"
    "\n"
    "p{margin:.25rem 0}a{color:var(--mark)}.soft,figcaption,"
    "dt{color:var(--soft)}\n"
    "header{display:flex;flex-wrap:wrap;gap:.5rem 2rem;align-items:baseline;"
    "justify-content:space-between}\n"
    "dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(13rem,1fr));"
    "gap:.75rem;margin:1.25rem 0 0}\n"
    "dl div{display:flex;flex-direction:column-reverse;"
    "justify-content:flex-end;padding:.75rem 1rem;border:1px solid var(--line);"
    "border-radius:.5rem;background:var(--card)}\n"
    "dt{font-size:.875rem}dd{margin:0;font-size:1.5rem;"
    "font-variant-numeric:tabular-nums}\n"
    "figure{margin:0}svg{display:block;width:100%;height:8rem;border:1px solid "
    "var(--line);border-radius:.5rem;background:var(--card);fill:var(--mark)}\n"
    "figcaption{display:flex;justify-content:space-between;gap:1rem;"
    "font-size:.875rem}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;width:100%;"
    "font-variant-numeric:tabular-nums}\n"
    "th,td{padding:.35rem .75rem;border-bottom:1px solid var(--line);"
    "text-align:right;white-space:nowrap}\n"
    "thead th{color:var(--soft);font-size:.875rem;font-weight:600}\n"
    "th:first-child,.text td,.text th{text-align:left}"
    "tbody th{font-weight:600}"
    "#figures th{white-space:normal}"
    "#times td,#times th{padding-top:.1rem;padding-bottom:.1rem}"
    "#times thead th:nth-child(2n+3){text-align:left}"
    ".text td{white-space:normal;overflow-wrap:anywhere}\n"
    ".bar{display:block;width:100%;min-width:6rem;height:.9rem}.bar "
    "i{display:block;height:100%;border-radius:.2rem;background:var(--mark)}"
    ".wait i{background:var(--wait)}\n"
    "footer{margin-top:2.5rem;padding-top:.75rem;border-top:1px solid "
    "var(--line)}\n"
    "@media(max-width:40rem){body{padding:.75rem}dl{grid-template-columns:"
    "1fr 1fr}th,td{padding:.35rem .4rem;font-size:.875rem}"
    ".bar{min-width:3rem}}\n"
    ".failed{color:var(--wait)}:focus-visible{outline:3px solid var(--mark);"
    "outline-offset:2px}\n";

static const char script[] =
    "(function () {\n"
    "'use strict';\n"
    "var live = document.getElementById('live');\n"
    "var state = document.getElementById('state');\n"
    "var units = [[86400, 'd', 1], [3600, 'h', 1], [60, 'min', 1], [1, 's', 2],"
    " [1e-3, 'ms', 1], [1e-6, '\\u00b5s', 1]];\n"
    "function time(s) {\n"
    "    var u = units.find(function (unit) { return s >= unit[0]; });\n"
    "    return u ? (s / u[0]).toFixed(u[2]) + ' ' + u[1] : Math.round(s * "
    "1e9) + ' ns';\n"
    "}\n"
    "function bar(share, kind) {\n"
    "    var outer = document.createElement('span'), inner = "
    "document.createElement('i');\n"
    "    outer.className = 'bar ' + kind;\n"
    "    inner.style.width = share + '%';\n"
    "    outer.append(inner);\n"
    "    return outer;\n"
    "}\n"
    "function rows(id, list, cells) {\n"
    "    document.querySelector('#' + id + ' tbody').replaceChildren.apply(\n"
    "        document.querySelector('#' + id + ' tbody'), list.map(function "
    "(item) {\n"
    "        var row = document.createElement('tr');\n"
    "        cells(item).forEach(function (cell, i) {\n"
    "            var element = document.createElement(i ? 'td' : 'th');\n"
    "            if (!i) { element.scope = 'row'; }\n"
    "            element.append(cell);\n"
    "            row.append(element);\n"
    "        });\n"
    "        return row;\n"
    "    }));\n"
    "}\n"
    "function histogram(wait, hold) {\n"
    "    var list = wait.buckets.map(function (bucket, i) {\n"
    "        return { below: bucket.below, wait: bucket.count, hold: "
    "hold.buckets[i].count };\n"
    "    });\n"
    "    var used = list.filter(function (b) { return b.wait || b.hold; });\n"
    "    var most = function (what) {\n"
    "        return Math.max.apply(null, [1].concat(used.map(function (b) { "
    "return b[what]; })));\n"
    "    };\n"
    "    var mostWait = most('wait'), mostHold = most('hold');\n"
    "    list = used.length ? list.slice(list.indexOf(used[0]), "
    "list.indexOf(used[used.length - 1]) + 1) : [];\n"
    "    rows('times', list, function (b) {\n"
    "        return [b.below === null ? 'more' : '< ' + time(b.below), b.wait, "
    "bar(100 * b.wait / mostWait, 'wait'),\n"
    "            b.hold, bar(100 * b.hold / mostHold, 'hold')];\n"
    "    });\n"
    "}\n"
    "function chart(samples) {\n"
    "    var svg = document.querySelector('svg'), first = samples[0].time;\n"
    "    var span = Math.max(1, samples[samples.length - 1].time - first), "
    "peak = 0;\n"
    "    var bars = samples.slice(1).map(function (s, i) {\n"
    "        var from = samples[i], rate = (s.deferred - from.deferred) / "
    "Math.max(1, s.time - from.time);\n"
    "        peak = Math.max(peak, rate);\n"
    "        return [from.time - first, s.time - from.time, rate];\n"
    "    });\n"
    "    svg.querySelectorAll('rect').forEach(function (r) { r.remove(); });\n"
    "    bars.forEach(function (b) {\n"
    "        var r = document.createElementNS('http://www.w3.org/2000/svg', "
    "'rect');\n"
    "        var height = peak ? 95 * b[2] / peak : 0;\n"
    "        r.setAttribute('x', 600 * b[0] / span);\n"
    "        r.setAttribute('width', Math.max(1, 600 * b[1] / span - 1));\n"
    "        r.setAttribute('y', 100 - height);\n"
    "        r.setAttribute('height', height);\n"
    "        svg.append(r);\n"
    "    });\n"
    "    document.getElementById('span').textContent = time(span) + ' ago';\n"
    "    document.getElementById('peak').textContent = 'highest: ' + "
    "peak.toFixed(2) + ' a second';\n"
    "}\n"
    "function show(d) {\n"
    "    document.querySelectorAll('[data-figure]').forEach(function (e) {\n"
    "        var name = e.dataset.figure, value = d.figures[name];\n"
    "        e.textContent = /_seconds$/.test(name) ? time(value) : value;\n"
    "    });\n"
    "    rows('signals', d.signals, function (s) {\n"
    "        return [s.name, s.number, s.received, s.deferred, s.held, s.run];"
    "\n"
    "    });\n"
    "    rows('children', d.children, function (c) {\n"
    "        return [c.pid, c.generation, time(c.age), c.state, c.received, "
    "c.deferred,\n"
    "            time(c.deferral_longest_seconds), c.accept_lock_acquired, "
    "c.accept_lock_holder ? 'yes' : 'no'];\n"
    "    });\n"
    "    histogram(d.accept_lock_wait, d.accept_lock_hold);\n"
    "    chart(d.samples);\n"
    "}\n"
    "function tell(text, failed) {\n"
    "    if (state.textContent !== text) { state.textContent = text; }\n"
    "    state.className = failed ? 'failed' : 'soft';\n"
    "}\n"
    "function again() { setTimeout(poll, 2000); }\n"
    "function poll() {\n"
    "    if (!live.checked || document.hidden) { again(); return; }\n"
    "    fetch('?json', { cache: 'no-store' }).then(function (answer) {\n"
    "        if (!answer.ok) { throw new Error(answer.status); }\n"
    "        return answer.json();\n"
    "    }).then(function (d) {\n"
    "        show(d);\n"
    "        tell('', false);\n"
    "    }).catch(function () {\n"
    "        tell('The server does not answer; the figures are old.', true);\n"
    "    }).then(again);\n"
    "}\n"
    "document.getElementById('control').hidden = false;\n"
    "again();\n"
    "}());\n";
/* clang-format on */

/* ---- Pieces ------------------------------------------------------------- */

/* As the script does it. */
static const char *human_time(uint64_t ns, apr_pool_t *p)
{
    static const struct {
        double from;
        const char *format;
    } units[] = {
        { 86400e9, "%.1f d" }, { 3600e9, "%.1f h" }, { 60e9, "%.1f min" },
        { 1e9, "%.2f s" },     { 1e6, "%.1f ms" },   { 1e3, "%.1f \xc2\xb5s" },
    };
    size_t i;

    for (i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if ((double)ns >= units[i].from) {
            return apr_psprintf(p, units[i].format, (double)ns / units[i].from);
        }
    }
    return apr_psprintf(p, "%" APR_UINT64_T_FMT " ns", ns);
}

static const char *human_value(const model_figure_t *figure, apr_pool_t *p)
{
    return figure->kind == MODEL_COUNTER || figure->kind == MODEL_GAUGE
               ? model_value(figure, p)
               : human_time(figure->value, p);
}

/* The heads are separated by |. */
static void begin_table(request_rec *r, const char *id, const char *title,
                        const char *kind, const char *heads)
{
    char *rest = apr_pstrdup(r->pool, heads);
    char *head;

    ap_rprintf(r,
               "<div class=\"wide %s\" tabindex=\"0\" role=\"region\" "
               "aria-label=\"%s\">\n<table id=\"%s\"><thead><tr>",
               kind, title, id);
    while ((head = apr_strtok(rest, "|", &rest)) != NULL) {
        ap_rprintf(r, "<th scope=\"col\">%s</th>", head);
    }
    ap_rputs("</tr></thead>\n<tbody>\n", r);
}

static void end_table(request_rec *r)
{
    ap_rputs("</tbody></table></div>\n", r);
}

static void put_bar(request_rec *r, uint64_t value, uint64_t most,
                    const char *kind)
{
    ap_rprintf(r,
               "<td>%" APR_UINT64_T_FMT "</td><td><span class=\"bar %s\">"
               "<i style=\"width:%.1f%%\"></i></span></td>",
               value, kind, most ? 100.0 * (double)value / (double)most : 0.0);
}

/* ---- Sections ----------------------------------------------------------- */

static void put_key_figures(request_rec *r, const model_t *model)
{
    static const struct {
        const char *title;
        const char *figure;
    } keys[] = {
        { "signals received", "signals_received" },
        { "deferred", "signals_deferred" },
        { "longest deferral", "deferral_longest_seconds" },
        { "signals lost", "signals_lost" },
        { "children held", "children_held" },
        { "longest hold", "hold_longest_seconds" },
        { "requests cut", "requests_cut" },
        { "restarts", "restarts" },
    };
    size_t i;

    ap_rputs("<h2>At a glance</h2>\n<dl>\n", r);
    for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        ap_rprintf(r, "<div><dt>%s</dt><dd data-figure=\"%s\">%s</dd></div>\n",
                   keys[i].title, keys[i].figure,
                   human_value(model_figure(model, keys[i].figure), r->pool));
    }
    ap_rputs("</dl>\n", r);
}

static double rate(const status_sample_t *from, const status_sample_t *to)
{
    double seconds = (double)apr_time_sec(to->when)
                     - (double)apr_time_sec(from->when);

    return (double)(to->deferred - from->deferred)
           / (seconds < 1.0 ? 1.0 : seconds);
}

static void put_chart(request_rec *r, const model_t *model)
{
    const status_sample_t *samples = (const status_sample_t *)
                                         model->samples->elts;
    int last = model->samples->nelts - 1;
    double span = (double)(samples[last].when - samples[0].when);
    double peak = 0;
    int i;

    for (i = 1; i <= last; i++) {
        double now = rate(&samples[i - 1], &samples[i]);

        peak = now > peak ? now : peak;
    }
    ap_rputs(
        "<h2>Deferred signals</h2>\n<figure>\n<svg viewBox=\"0 0 600 100\" "
        "preserveAspectRatio=\"none\" role=\"img\" "
        "aria-labelledby=\"span peak\">\n",
        r);
    for (i = 1; i <= last && span > 0; i++) {
        double height = peak > 0
                            ? CHART_HIGHEST * rate(&samples[i - 1], &samples[i])
                                  / peak
                            : 0;
        double x = (double)(samples[i - 1].when - samples[0].when) / span;
        double width = (double)(samples[i].when - samples[i - 1].when) / span;

        ap_rprintf(r,
                   "<rect x=\"%.1f\" width=\"%.1f\" y=\"%.1f\" "
                   "height=\"%.1f\"/>\n",
                   CHART_WIDTH * x,
                   CHART_WIDTH * width > 2 ? CHART_WIDTH * width - 1 : 1.0,
                   CHART_HEIGHT - height, height);
    }
    ap_rprintf(r,
               "</svg>\n<figcaption><span id=\"span\">%s ago</span>"
               "<span id=\"peak\">highest: %.2f a second</span>"
               "<span>now</span></figcaption>\n</figure>\n",
               human_time((uint64_t)span * 1000u, r->pool), peak);
}

static void put_signals(request_rec *r, const model_t *model)
{
    int i;

    ap_rputs("<h2>Signals</h2>\n", r);
    begin_table(r, "signals", "Signals", "",
                "Signal|Number|Received|Deferred|Held|Run");
    for (i = 0; i < model->signals->nelts; i++) {
        const model_signal_t *signal = &(
            (const model_signal_t *)model->signals->elts)[i];
        const model_column_t *column;

        ap_rprintf(r, "<tr><th scope=\"row\">%s</th><td>%d</td>",
                   ap_escape_html(r->pool, signal->name), signal->signo);
        for (column = model_columns; column->name; column++) {
            ap_rprintf(r, "<td>%" APR_UINT64_T_FMT "</td>",
                       model_column(signal, column));
        }
        ap_rputs("</tr>\n", r);
    }
    end_table(r);
}

static void put_accept(request_rec *r, const model_t *model)
{
    const accept_times_t *wait = &model->accept.wait;
    const accept_times_t *hold = &model->accept.hold;
    uint64_t most_wait = 0;
    uint64_t most_hold = 0;
    int first = ACCEPT_STATS_BUCKETS;
    int last = -1;
    int i;

    for (i = 0; i < ACCEPT_STATS_BUCKETS; i++) {
        if (wait->buckets[i] != 0 || hold->buckets[i] != 0) {
            first = i < first ? i : first;
            last = i;
        }
        most_wait = wait->buckets[i] > most_wait ? wait->buckets[i] : most_wait;
        most_hold = hold->buckets[i] > most_hold ? hold->buckets[i] : most_hold;
    }
    ap_rputs("<h2>Accept lock</h2>\n<p class=\"soft\">How long children wait "
             "for it, and have it.</p>\n",
             r);
    begin_table(r, "times", "Accept lock", "",
                "Time|Waits|Share of waits|Holds|Share of holds");
    for (i = first; i <= last; i++) {
        ap_rprintf(r, "<tr><th scope=\"row\">%s%s</th>",
                   i < ACCEPT_STATS_BUCKETS - 1 ? "&lt; " : "",
                   i < ACCEPT_STATS_BUCKETS - 1
                       ? human_time(MODEL_BOUND(i), r->pool)
                       : "more");
        put_bar(r, wait->buckets[i], most_wait, "wait");
        put_bar(r, hold->buckets[i], most_hold, "hold");
        ap_rputs("</tr>\n", r);
    }
    end_table(r);
}

static void put_children(request_rec *r, const model_t *model)
{
    int i;

    ap_rputs("<h2>Children</h2>\n", r);
    begin_table(r, "children", "Children", "",
                "Process|Generation|Age|State|Received|Deferred|"
                "Longest deferral|Lock taken|Has the lock");
    for (i = 0; i < model->children->nelts; i++) {
        const model_child_t *child = &(
            (const model_child_t *)model->children->elts)[i];

        ap_rprintf(r,
                   "<tr><th scope=\"row\">%" APR_PID_T_FMT "</th><td>%d</td>"
                   "<td>%s</td><td>%s</td><td>%" APR_UINT64_T_FMT "</td>"
                   "<td>%" APR_UINT64_T_FMT "</td><td>%s</td>"
                   "<td>%" APR_UINT64_T_FMT "</td><td>%s</td></tr>\n",
                   child->pid, child->generation,
                   human_time((uint64_t)child->age * 1000000000u, r->pool),
                   child->state, child->received, child->deferred,
                   human_time(child->longest_ns, r->pool), child->acquired,
                   child->is_holder ? "yes" : "no");
    }
    end_table(r);
}

static void put_figure_rows(request_rec *r, const model_t *model)
{
    int i;

    for (i = 0; i < model->figures->nelts; i++) {
        const model_figure_t *figure = &(
            (const model_figure_t *)model->figures->elts)[i];

        ap_rprintf(r,
                   "<tr><th scope=\"row\">%s</th>"
                   "<td data-figure=\"%s\">%s</td></tr>\n",
                   ap_escape_html(r->pool, figure->help), figure->name,
                   human_value(figure, r->pool));
    }
}

static void put_setting_rows(request_rec *r, const model_t *model)
{
    const status_setting_t *setting;

    for (setting = model->settings; setting->name; setting++) {
        ap_rprintf(r, "<tr><th scope=\"row\">%s</th><td>%s</td></tr>\n",
                   ap_escape_html(r->pool, setting->name),
                   ap_escape_html(r->pool, setting->value));
    }
}

/* ---- The page ----------------------------------------------------------- */

static void put_statistics(request_rec *r, const model_t *model)
{
    if (!model->has_statistics) {
        ap_rputs("<p>There are no statistics: the module is off, or there was "
                 "no shared memory when the server started.</p>\n",
                 r);
        return;
    }
    put_key_figures(r, model);
    put_chart(r, model);
    put_signals(r, model);
    put_children(r, model);
    put_accept(r, model);
}

static void put_settings(request_rec *r, const model_t *model)
{
    ap_rputs("<h2>Configuration</h2>\n", r);
    begin_table(r, "settings", "Configuration", "text", "Directive|Value");
    put_setting_rows(r, model);
    end_table(r);
}

static void put_all_figures(request_rec *r, const model_t *model)
{
    ap_rputs("<h2>All figures</h2>\n", r);
    begin_table(r, "figures", "All figures", "", "Figure|Value");
    put_figure_rows(r, model);
    end_table(r);
}

void status_html(request_rec *r, const model_t *model)
{
    apr_table_setn(r->headers_out, "Content-Security-Policy", policy);
    ap_rvputs(r,
              "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n"
              "<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
              "content=\"width=device-width, initial-scale=1\">\n"
              "<link rel=\"icon\" href=\"data:,\">\n"
              "<title>mod_sigdefer</title>\n<style>\n",
              style, "</style>\n</head>\n<body>\n<header>\n",
              "<h1>mod_sigdefer</h1>\n", NULL);
    if (model->has_statistics) {
        ap_rputs("<p id=\"control\" hidden><span id=\"state\" role=\"status\">"
                 "</span> <label><input type=\"checkbox\" id=\"live\" checked>"
                 " refresh</label></p>\n",
                 r);
    }
    ap_rputs("</header>\n<main>\n", r);
    put_statistics(r, model);
    put_settings(r, model);
    if (model->has_statistics) {
        put_all_figures(r, model);
    }
    ap_rputs("</main>\n<footer><p class=\"soft\">For programs: "
             "<a href=\"?auto\">lines</a>, <a href=\"?json\">JSON</a>, "
             "<a href=\"?metrics\">OpenMetrics</a>.</p></footer>\n",
             r);
    if (model->has_statistics) {
        ap_rvputs(r, "<script>\n", script, "</script>\n", NULL);
    }
    ap_rputs("</body>\n</html>\n", r);
}

void status_html_section(request_rec *r, const model_t *model)
{
    ap_rputs("<hr>\n<h2>mod_sigdefer</h2>\n<table border=\"0\">\n", r);
    put_setting_rows(r, model);
    put_figure_rows(r, model);
    ap_rputs("</table>\n", r);
}
