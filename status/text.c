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

/* Lines of "SigDeferName: value", for scripts: the settings, then the figures
 * with the words of their names put together.
 */

#include "apr_lib.h"
#include "apr_strings.h"
#include "http_protocol.h"

#include "status/model.h"

static const char *camel(const char *name, apr_pool_t *p)
{
    char *camel = apr_palloc(p, strlen(name) + 1);
    char *end = camel;
    int begins = 1;

    for (; *name; name++) {
        if (*name == '_') {
            begins = 1;
            continue;
        }
        *end = *name;
        if (begins) {
            *end = (char)apr_toupper(*name);
        }
        end++;
        begins = 0;
    }
    *end = '\0';
    return camel;
}

static void put_times(request_rec *r, const char *name,
                      const accept_times_t *times)
{
    int i;

    for (i = 0; i < ACCEPT_STATS_BUCKETS; i++) {
        ap_rprintf(r, "SigDeferAcceptLock%s[%s]: %" APR_UINT64_T_FMT "\n", name,
                   i < ACCEPT_STATS_BUCKETS - 1
                       ? model_seconds(MODEL_BOUND(i), r->pool)
                       : "more",
                   times->buckets[i]);
    }
}

void status_text(request_rec *r, const model_t *model)
{
    const status_setting_t *setting;
    const model_column_t *column;
    int i;

    for (setting = model->settings; setting->name; setting++) {
        ap_rprintf(r, "%s: %s\n", setting->name, setting->value);
    }
    ap_rprintf(r, "SigDeferStatistics: %s\n",
               model->has_statistics ? "On" : "Off");
    if (!model->has_statistics) {
        return;
    }
    for (i = 0; i < model->figures->nelts; i++) {
        const model_figure_t *figure = &(
            (const model_figure_t *)model->figures->elts)[i];

        ap_rprintf(r, "SigDefer%s: %s\n", camel(figure->name, r->pool),
                   model_value(figure, r->pool));
    }
    for (i = 0; i < model->signals->nelts; i++) {
        const model_signal_t *signal = &(
            (const model_signal_t *)model->signals->elts)[i];

        for (column = model_columns; column->name; column++) {
            ap_rprintf(r, "SigDeferSignals%s[%s]: %" APR_UINT64_T_FMT "\n",
                       camel(column->name, r->pool), signal->name,
                       model_column(signal, column));
        }
    }
    put_times(r, "Wait", &model->accept.wait);
    put_times(r, "Hold", &model->accept.hold);
}
