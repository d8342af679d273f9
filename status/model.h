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

/**
 * @file status/model.h
 * @brief What is shown, taken once and rendered then.
 */

#ifndef SIGDEFER_STATUS_MODEL_H
#define SIGDEFER_STATUS_MODEL_H

#include "httpd.h"

#include "hold/hold.h"
#include "sigdefer/names.h"
#include "status/status.h"

/* Nanoseconds of an upper bound of a bucket of accept_times_t. */
#define MODEL_BOUND(bucket) ((uint64_t)1 << (ACCEPT_STATS_FIRST + (bucket)))

typedef enum {
    MODEL_COUNTER,         /* of events, since the start */
    MODEL_COUNTER_SECONDS, /* of time, since the start, in nanoseconds */
    MODEL_GAUGE,           /* a number that is now */
    MODEL_GAUGE_SECONDS    /* a time, in nanoseconds */
} model_kind_e;

/** One figure of the server as a whole. */
typedef struct {
    const char *name; /* words in lower case, with _ between */
    const char *help; /* no full stop */
    model_kind_e kind;
    int is_by_signal; /* the sum of a column of the signals */
    uint64_t value;
} model_figure_t;

/** One signal that has been seen, or that the engine has been asked for. */
typedef struct {
    int signo;
    char name[NAMES_LENGTH];
    uint64_t received;
    uint64_t deferred;
    uint64_t held;
    uint64_t run;
} model_signal_t;

typedef struct {
    pid_t pid;
    int generation;
    int age;           /* seconds */
    const char *state; /* waiting, idle, serving; leaving: it is to go */
    uint64_t received;
    uint64_t deferred;
    uint64_t longest_ns;
    uint64_t acquired;
    int is_holder; /* has the accept lock */
    uint64_t holder_ns;
} model_child_t;

typedef struct {
    apr_time_t now;
    int has_statistics;
    const status_setting_t *settings; /* ends with the name NULL */
    apr_array_header_t *figures;      /* of model_figure_t */
    apr_array_header_t *signals;      /* of model_signal_t, by number */
    apr_array_header_t *children;     /* of model_child_t, by process */
    apr_array_header_t *samples;      /* of status_sample_t, oldest first; the
                                       * last one is now */
    accept_stats_t accept;
} model_t;

/** What a column of the signals is called, and where it is. */
typedef struct {
    const char *name;
    const char *help;
    size_t offset; /* of a uint64_t, in model_signal_t and stats_signal_t */
    size_t from;
} model_column_t;

extern const model_column_t model_columns[]; /* ends with the name NULL */

/**
 * Take a snapshot.
 * @param model from p
 */
void model_take(model_t *model, const status_setting_t *settings,
                apr_pool_t *p);

/** A column of a signal. */
static inline uint64_t model_column(const model_signal_t *signal,
                                    const model_column_t *column)
{
    return *(const uint64_t *)((const char *)signal + column->offset);
}

/** A figure by its name, which must be one. */
const model_figure_t *model_figure(const model_t *model, const char *name);

/** The value of a figure as text, times in seconds. */
const char *model_value(const model_figure_t *figure, apr_pool_t *p);

/** Nanoseconds as text, in seconds. */
const char *model_seconds(uint64_t ns, apr_pool_t *p);

/* ---- Renderings --------------------------------------------------------- */

void status_html(request_rec *r, const model_t *model);
void status_text(request_rec *r, const model_t *model);
void status_json(request_rec *r, const model_t *model);

/**
 * OpenMetrics, or the older format of Prometheus if the client takes only
 * that.
 */
void status_metrics(request_rec *r, const model_t *model);

/** A table for a page that is not ours. */
void status_html_section(request_rec *r, const model_t *model);

#endif /* SIGDEFER_STATUS_MODEL_H */
