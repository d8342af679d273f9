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

#include "apr_strings.h"
#include "http_protocol.h"

#include "status/model.h"

static void put_string(request_rec *r, const char *text)
{
    ap_rputc('"', r);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\') {
            ap_rputc('\\', r);
            ap_rputc(c, r);
        }
        else if (c < 0x20 || c >= 0x7f) {
            /* bytes, of whatever character set */
            ap_rprintf(r, "\\u%04x", c);
        }
        else {
            ap_rputc(c, r);
        }
    }
    ap_rputc('"', r);
}

static const char *comma(int i)
{
    return i == 0 ? "" : ",";
}

static void put_settings(request_rec *r, const model_t *model)
{
    const status_setting_t *setting;

    ap_rputs("\"settings\":{", r);
    for (setting = model->settings; setting->name; setting++) {
        ap_rputs(comma(setting != model->settings), r);
        put_string(r, setting->name);
        ap_rputc(':', r);
        put_string(r, setting->value);
    }
    ap_rputs("}", r);
}

static void put_figures(request_rec *r, const model_t *model)
{
    int i;

    ap_rputs(",\n\"figures\":{", r);
    for (i = 0; i < model->figures->nelts; i++) {
        const model_figure_t *figure = &(
            (const model_figure_t *)model->figures->elts)[i];

        ap_rprintf(r, "%s\n\"%s\":%s", comma(i), figure->name,
                   model_value(figure, r->pool));
    }
    ap_rputs("}", r);
}

static void put_signals(request_rec *r, const model_t *model)
{
    const model_column_t *column;
    int i;

    ap_rputs(",\n\"signals\":[", r);
    for (i = 0; i < model->signals->nelts; i++) {
        const model_signal_t *signal = &(
            (const model_signal_t *)model->signals->elts)[i];

        ap_rprintf(r, "%s\n{\"number\":%d,\"name\":", comma(i), signal->signo);
        put_string(r, signal->name);
        for (column = model_columns; column->name; column++) {
            ap_rprintf(r, ",\"%s\":%" APR_UINT64_T_FMT, column->name,
                       model_column(signal, column));
        }
        ap_rputc('}', r);
    }
    ap_rputs("]", r);
}

static void put_children(request_rec *r, const model_t *model)
{
    int i;

    ap_rputs(",\n\"children\":[", r);
    for (i = 0; i < model->children->nelts; i++) {
        const model_child_t *child = &(
            (const model_child_t *)model->children->elts)[i];

        ap_rprintf(r,
                   "%s\n{\"pid\":%" APR_PID_T_FMT ",\"generation\":%d,"
                   "\"age\":%d,\"state\":\"%s\","
                   "\"received\":%" APR_UINT64_T_FMT ","
                   "\"deferred\":%" APR_UINT64_T_FMT ","
                   "\"deferral_longest_seconds\":%s,"
                   "\"accept_lock_acquired\":%" APR_UINT64_T_FMT ","
                   "\"accept_lock_holder\":%s}",
                   comma(i), child->pid, child->generation, child->age,
                   child->state, child->received, child->deferred,
                   model_seconds(child->longest_ns, r->pool), child->acquired,
                   child->is_holder ? "true" : "false");
    }
    ap_rputs("]", r);
}

/* The bounds are numbers; the last bucket has none. */
static void put_times(request_rec *r, const char *name,
                      const accept_times_t *times)
{
    int i;

    ap_rprintf(r, ",\n\"%s\":{\"seconds\":%s,\"buckets\":[", name,
               model_seconds(times->total_ns, r->pool));
    for (i = 0; i < ACCEPT_STATS_BUCKETS; i++) {
        ap_rprintf(r, "%s{\"below\":%s,\"count\":%" APR_UINT64_T_FMT "}",
                   comma(i),
                   i < ACCEPT_STATS_BUCKETS - 1
                       ? model_seconds(MODEL_BOUND(i), r->pool)
                       : "null",
                   times->buckets[i]);
    }
    ap_rputs("]}", r);
}

static void put_samples(request_rec *r, const model_t *model)
{
    int i;

    ap_rputs(",\n\"samples\":[", r);
    for (i = 0; i < model->samples->nelts; i++) {
        const status_sample_t *sample = &(
            (const status_sample_t *)model->samples->elts)[i];

        ap_rprintf(r,
                   "%s{\"time\":%" APR_TIME_T_FMT
                   ",\"received\":%" APR_UINT64_T_FMT
                   ",\"deferred\":%" APR_UINT64_T_FMT "}",
                   comma(i), apr_time_sec(sample->when), sample->received,
                   sample->deferred);
    }
    ap_rputs("]", r);
}

void status_json(request_rec *r, const model_t *model)
{
    ap_rputs("{", r);
    put_settings(r, model);
    ap_rprintf(r, ",\n\"statistics\":%s",
               model->has_statistics ? "true" : "false");
    put_figures(r, model);
    put_signals(r, model);
    put_children(r, model);
    put_times(r, "accept_lock_wait", &model->accept.wait);
    put_times(r, "accept_lock_hold", &model->accept.hold);
    put_samples(r, model);
    ap_rputs("}\n", r);
}
