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

/* What a Prometheus reads: OpenMetrics 1.0, or the format before it.  They
 * differ in the name of a counter's family, which in the older one is that of
 * its samples, and in the end.
 */

#include "apr_strings.h"
#include "http_protocol.h"

#include "status/model.h"

#define PREFIX "sigdefer_"

static void put_escaped(request_rec *r, const char *text)
{
    for (; *text; text++) {
        if (*text == '\n') {
            ap_rputs("\\n", r);
            continue;
        }
        if (*text == '"' || *text == '\\') {
            ap_rputc('\\', r);
        }
        ap_rputc(*text, r);
    }
}

static void put_family(request_rec *r, const char *name, const char *type,
                       const char *suffix, const char *help)
{
    ap_rprintf(r,
               "# TYPE " PREFIX "%s%s %s\n"
               "# HELP " PREFIX "%s%s %s.\n",
               name, suffix, type, name, suffix, help);
}

/* label="value" of every setting. */
static void put_settings(request_rec *r, const model_t *model)
{
    const status_setting_t *setting;

    put_family(r, "setting", "gauge", "", "What is configured, always 1");
    for (setting = model->settings; setting->name; setting++) {
        ap_rputs(PREFIX "setting{name=\"", r);
        put_escaped(r, setting->name);
        ap_rputs("\",value=\"", r);
        put_escaped(r, setting->value);
        ap_rputs("\"} 1\n", r);
    }
}

static void put_by_signal(request_rec *r, const model_t *model,
                          const model_column_t *column)
{
    int i;

    for (i = 0; i < model->signals->nelts; i++) {
        const model_signal_t *signal = &(
            (const model_signal_t *)model->signals->elts)[i];

        ap_rprintf(r, PREFIX "signals_%s_total{signal=\"", column->name);
        put_escaped(r, signal->name);
        ap_rprintf(r, "\"} %" APR_UINT64_T_FMT "\n",
                   model_column(signal, column));
    }
}

static void put_figure(request_rec *r, const model_figure_t *figure, int is_old)
{
    int is_counter = figure->kind == MODEL_COUNTER
                     || figure->kind == MODEL_COUNTER_SECONDS;

    put_family(r, figure->name, is_counter ? "counter" : "gauge",
               is_counter && is_old ? "_total" : "", figure->help);
    if (!figure->is_by_signal) {
        ap_rprintf(r, PREFIX "%s%s %s\n", figure->name,
                   is_counter ? "_total" : "", model_value(figure, r->pool));
    }
}

static void put_times(request_rec *r, const char *name, const char *help,
                      const accept_times_t *times)
{
    uint64_t count = 0;
    int i;

    put_family(r, name, "histogram", "", help);
    for (i = 0; i < ACCEPT_STATS_BUCKETS; i++) {
        count += times->buckets[i];
        ap_rprintf(r, PREFIX "%s_bucket{le=\"%s\"} %" APR_UINT64_T_FMT "\n",
                   name,
                   i < ACCEPT_STATS_BUCKETS - 1
                       ? model_seconds(MODEL_BOUND(i), r->pool)
                       : "+Inf",
                   count);
    }
    ap_rprintf(r,
               PREFIX "%s_sum %s\n" PREFIX "%s_count %" APR_UINT64_T_FMT "\n",
               name, model_seconds(times->total_ns, r->pool), name, count);
}

void status_metrics(request_rec *r, const model_t *model)
{
    const char *accept = apr_table_get(r->headers_in, "Accept");
    int is_old = accept && ap_strcasestr(accept, "text/plain")
                 && !ap_strcasestr(accept, "application/openmetrics-text");
    const model_column_t *column = model_columns;
    int i;

    apr_table_mergen(r->headers_out, "Vary", "Accept");
    ap_set_content_type(r, is_old ? "text/plain; version=0.0.4; charset=utf-8"
                                  : "application/openmetrics-text; "
                                    "version=1.0.0; charset=utf-8");
    put_settings(r, model);
    for (i = 0; i < model->figures->nelts; i++) {
        const model_figure_t *figure = &(
            (const model_figure_t *)model->figures->elts)[i];

        put_figure(r, figure, is_old);
        if (figure->is_by_signal) {
            put_by_signal(r, model, column++);
        }
    }
    if (model->has_statistics) {
        put_times(r, "accept_lock_wait_seconds",
                  "Time that a child has waited for the accept lock, if any",
                  &model->accept.wait);
        put_times(r, "accept_lock_hold_seconds",
                  "Time that a child has had the accept lock",
                  &model->accept.hold);
    }
    if (!is_old) {
        ap_rputs("# EOF\n", r);
    }
}
