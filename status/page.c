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

/* The handler sigdefer-status, and the section on mod_status's page. */

#include "httpd.h"
#include "http_config.h"
#include "http_core.h"
#include "http_log.h"
#include "http_protocol.h"
#include "http_request.h"
#include "apr_optional_hooks.h"
#include "mod_status.h"

#include "status/model.h"

APLOG_USE_MODULE(sigdefer);

/* Of this generation. */
static const status_setting_t *settings;

static const struct {
    const char *word; /* the whole query */
    const char *content_type;
    void (*render)(request_rec *r, const model_t *model);
} renderings[] = {
    { NULL, "text/html; charset=utf-8", status_html },
    { "auto", "text/plain; charset=utf-8", status_text },
    { "json", "application/json", status_json },
    { "metrics", NULL, status_metrics }, /* it depends */
};

#define RENDERINGS (sizeof(renderings) / sizeof(renderings[0]))

void status_init(server_rec *s, const status_setting_t *of_generation,
                 int counts)
{
    apr_status_t rv = counts ? status_slots_create(s) : APR_SUCCESS;

    settings = of_generation;
    if (rv != APR_SUCCESS) {
        ap_log_error(
            APLOG_MARK, APLOG_WARNING, rv, s,
            "sigdefer: S060: no shared memory: there are no statistics");
    }
}

/* "metrics=" is what a Prometheus can be made to ask for. */
static int is_query(const char *query, const char *word)
{
    size_t length = word ? strlen(word) : 0;

    if (!query || !*query || !word) {
        return !word && (!query || !*query);
    }
    return strncmp(query, word, length) == 0
           && (query[length] == '\0' || strcmp(query + length, "=") == 0);
}

static int bad_query(request_rec *r)
{
    r->status = HTTP_BAD_REQUEST;
    ap_set_content_type(r, "text/plain; charset=utf-8");
    ap_rputs("unknown query; legal are none, auto, json, metrics\n", r);
    return OK;
}

static int handler(request_rec *r)
{
    model_t model;
    size_t i;

    if (strcmp(r->handler, "sigdefer-status") != 0) {
        return DECLINED;
    }
    if (r->method_number != M_GET) {
        ap_allow_standard_methods(r, REPLACE_ALLOW, M_GET, -1);
        return HTTP_METHOD_NOT_ALLOWED;
    }
    apr_table_setn(r->headers_out, "Cache-Control", "no-store");
    apr_table_setn(r->headers_out, "X-Content-Type-Options", "nosniff");
    for (i = 0; i < RENDERINGS && !is_query(r->args, renderings[i].word); i++) {
        continue;
    }
    if (i == RENDERINGS) {
        return bad_query(r);
    }
    if (renderings[i].content_type) {
        ap_set_content_type(r, renderings[i].content_type);
    }
    model_take(&model, settings, r->pool);
    renderings[i].render(r, &model);
    return OK;
}

static int status_hook(request_rec *r, int flags)
{
    model_t model;

    model_take(&model, settings, r->pool);
    if (flags & AP_STATUS_SHORT) {
        status_text(r, &model);
    }
    else {
        status_html_section(r, &model);
    }
    return OK;
}

void status_register_hooks(void)
{
    ap_hook_handler(handler, NULL, NULL, APR_HOOK_MIDDLE);
    APR_OPTIONAL_HOOK(ap, status_hook, status_hook, NULL, NULL,
                      APR_HOOK_MIDDLE);
}
