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

#include <stddef.h>
#include <stdlib.h>

#include "apr_strings.h"

#include "status/model.h"

#define COLUMN(name, help) \
    { \
#name, help, offsetof(model_signal_t, name), \
            offsetof(stats_signal_t, name) \
    }

const model_column_t model_columns[] = {
    COLUMN(received, "Signals that have reached a child"),
    COLUMN(deferred, "Signals that waited for the end of a critical section"),
    COLUMN(held, "Signals noted until what is being served is finished"),
    COLUMN(run, "Signals whose registered action has been called"),
    { NULL }
};

static void add_figure(model_t *model, const char *name, model_kind_e kind,
                       uint64_t value, const char *help)
{
    model_figure_t *figure = apr_array_push(model->figures);

    figure->name = name;
    figure->help = help;
    figure->kind = kind;
    figure->value = value;
}

static uint64_t word_at(const void *base, size_t offset)
{
    return *(const _Atomic uint64_t *)((const char *)base + offset);
}

static void add_columns(model_t *model, const stats_t *engine, apr_pool_t *p)
{
    const model_column_t *column;

    for (column = model_columns; column->name; column++) {
        uint64_t sum = 0;
        int i;

        for (i = 0; i < STATS_SIGNALS; i++) {
            sum += word_at(&engine->signals[i], column->from);
        }
        add_figure(model, apr_pstrcat(p, "signals_", column->name, NULL),
                   MODEL_COUNTER, sum, column->help);
        ((model_figure_t *)model->figures->elts)[model->figures->nelts - 1]
            .is_by_signal = 1;
    }
}

static void add_engine(model_t *model, const stats_t *engine)
{
    add_figure(model, "signals_merged", MODEL_COUNTER, engine->merged,
               "Ticks of interval timers that found one waiting");
    add_figure(model, "signals_handed_back", MODEL_COUNTER, engine->handed_back,
               "Deferred signals given back to the kernel, which sends them "
               "again");
    add_figure(model, "signals_ignored", MODEL_COUNTER, engine->ignored,
               "Deferred signals that were ignored by the time they could run");
    add_figure(model, "signals_lost", MODEL_COUNTER, engine->lost,
               "Signals that could be neither queued nor given back");
    add_figure(model, "deferral_seconds", MODEL_COUNTER_SECONDS,
               engine->total_ns, "Time that deferred signals have waited");
    add_figure(model, "deferral_longest_seconds", MODEL_GAUGE_SECONDS,
               engine->longest_ns, "Longest time that a signal has waited");
    add_figure(model, "queue_highest", MODEL_GAUGE, engine->queue_highest,
               "Most signals that have waited in a thread at a time");
    add_figure(model, "queue_overflows", MODEL_COUNTER, engine->overflows,
               "Times that a queue was full and the kernel kept what came");
    add_figure(model, "unpaired_leaves", MODEL_COUNTER, engine->unpaired_leaves,
               "Critical sections left that had not been entered");
    add_figure(model, "open_sections", MODEL_COUNTER, engine->open_sections,
               "Critical sections left open at the end of a request");
    add_figure(model, "handlers_adopted", MODEL_COUNTER, engine->adopted,
               "Signal handlers of others found in place of ours");
    add_figure(model, "processes_reaped", MODEL_COUNTER, engine->reaped,
               "Processes reaped for SigDeferReapChildren");
}

static void add_server(model_t *model, const status_snapshot_t *snapshot)
{
    static const hold_counts_t none;
    const hold_counts_t *hold = hold_board_counts();

    hold = hold ? hold : &none;
    add_figure(model, "uptime_seconds", MODEL_GAUGE_SECONDS,
               (uint64_t)(model->now - snapshot->started) * 1000u,
               "Time since the statistics began");
    add_figure(model, "restarts", MODEL_COUNTER, snapshot->restarts,
               "Restarts of the server, graceful ones included");
    add_figure(model, "children", MODEL_GAUGE,
               (uint64_t)snapshot->children->nelts, "Children that there are");
    add_figure(model, "children_ended", MODEL_COUNTER, snapshot->ended,
               "Children that have gone");
    add_figure(model, "children_held", MODEL_COUNTER, hold->held,
               "Children that served when they were to go, and have gone");
    add_figure(model, "hold_seconds", MODEL_COUNTER_SECONDS,
               hold->total_ms * 1000000u,
               "Time that such children were given to finish");
    add_figure(model, "hold_longest_seconds", MODEL_GAUGE_SECONDS,
               hold->longest_ms * 1000000u,
               "Longest time that such a child was given");
    add_figure(model, "requests_cut", MODEL_COUNTER, hold->cut,
               "Requests ended at the deadline of the hold");
    add_figure(model, "children_killed", MODEL_COUNTER, hold->killed,
               "Children killed after the deadline of the hold");
}

static void add_accept(model_t *model)
{
    const accept_stats_t *accept = &model->accept;
    const model_child_t *holder = NULL;
    int i;

    for (i = 0; i < model->children->nelts; i++) {
        const model_child_t *child = &(
            (const model_child_t *)model->children->elts)[i];

        if (child->is_holder
            && (!holder || child->holder_ns > holder->holder_ns)) {
            holder = child;
        }
    }
    add_figure(model, "accept_lock_acquired", MODEL_COUNTER, accept->acquired,
               "Times that a child has taken the accept lock");
    add_figure(model, "accept_lock_contended", MODEL_COUNTER, accept->contended,
               "Times that it had to wait for it");
    add_figure(model, "accept_lock_recovered", MODEL_COUNTER, accept->recovered,
               "Times that its holder had died and it was passed on");
    add_figure(model, "accept_lock_holder", MODEL_GAUGE,
               holder ? (uint64_t)holder->pid : 0,
               "Process that has the accept lock, 0 if none has");
    add_figure(model, "accept_lock_holder_seconds", MODEL_GAUGE_SECONDS,
               holder ? holder->holder_ns : 0, "Time that it has had it");
}

static void add_signals(model_t *model, const stats_t *engine)
{
    int i;

    for (i = 0; i < STATS_SIGNALS; i++) {
        char buffer[NAMES_LENGTH];
        const model_column_t *column;
        model_signal_t *signal;
        uint64_t any = 0;

        for (column = model_columns; column->name; column++) {
            any |= word_at(&engine->signals[i], column->from);
        }
        if (any == 0) {
            continue;
        }
        signal = apr_array_push(model->signals);
        signal->signo = i + 1;
        apr_cpystrn(signal->name, names_of_signal(i + 1, buffer),
                    sizeof(signal->name));
        for (column = model_columns; column->name; column++) {
            *(uint64_t *)((char *)signal + column->offset) = word_at(
                &engine->signals[i], column->from);
        }
    }
}

static const char *state_of(pid_t pid)
{
    static const char *const names[] = { "waiting", "idle", "serving" };
    hold_entry_t *entry = hold_board_find(pid);

    if (!entry) {
        return "unknown";
    }
    if (atomic_load(&entry->asked) || atomic_load(&entry->held) != 0) {
        return "leaving";
    }
    return names[atomic_load(&entry->state)];
}

static int by_pid(const void *one, const void *other)
{
    pid_t a = ((const model_child_t *)one)->pid;
    pid_t b = ((const model_child_t *)other)->pid;

    return (a > b) - (a < b);
}

static void add_children(model_t *model, const status_snapshot_t *snapshot)
{
    uint64_t now = accept_stats_clock();
    int i;

    for (i = 0; i < snapshot->children->nelts; i++) {
        const status_child_t *from = &(
            (const status_child_t *)snapshot->children->elts)[i];
        model_child_t *child = apr_array_push(model->children);
        int n;

        child->pid = from->pid;
        child->generation = from->generation;
        child->age = from->started
                         ? (int)apr_time_sec(model->now - from->started)
                         : 0;
        child->state = state_of(child->pid);
        for (n = 0; n < STATS_SIGNALS; n++) {
            child->received += from->engine.signals[n].received;
        }
        child->deferred = from->engine.deferred;
        child->longest_ns = from->engine.longest_ns;
        child->acquired = from->accept.acquired;
        child->is_holder = from->accept.since != 0;
        if (child->is_holder && now > from->accept.since) {
            child->holder_ns = now - from->accept.since;
        }
    }
    qsort(model->children->elts, (size_t)model->children->nelts,
          sizeof(model_child_t), by_pid);
}

static void add_now(model_t *model)
{
    status_sample_t *now = apr_array_push(model->samples);

    now->when = model->now;
    now->received = model_figure(model, "signals_received")->value;
    now->deferred = model_figure(model, "signals_deferred")->value;
}

void model_take(model_t *model, const status_setting_t *settings, apr_pool_t *p)
{
    status_snapshot_t snapshot;

    status_slots_read(&snapshot, p);
    memset(model, 0, sizeof(*model));
    model->now = apr_time_now();
    model->has_statistics = snapshot.is_there;
    model->settings = settings;
    model->accept = snapshot.total.accept;
    model->samples = snapshot.samples;
    model->figures = apr_array_make(p, 40, sizeof(model_figure_t));
    model->signals = apr_array_make(p, 8, sizeof(model_signal_t));
    model->children = apr_array_make(p, snapshot.children->nelts + 1,
                                     sizeof(model_child_t));
    if (!snapshot.is_there) {
        return;
    }
    add_signals(model, &snapshot.total.engine);
    add_children(model, &snapshot);
    add_columns(model, &snapshot.total.engine, p);
    add_engine(model, &snapshot.total.engine);
    add_server(model, &snapshot);
    add_accept(model);
    add_now(model);
}

const model_figure_t *model_figure(const model_t *model, const char *name)
{
    int i;

    for (i = 0; i < model->figures->nelts; i++) {
        const model_figure_t *figure = &(
            (const model_figure_t *)model->figures->elts)[i];

        if (strcmp(figure->name, name) == 0) {
            return figure;
        }
    }
    return NULL;
}

const char *model_seconds(uint64_t ns, apr_pool_t *p)
{
    return apr_psprintf(p, "%" APR_UINT64_T_FMT ".%09" APR_UINT64_T_FMT,
                        ns / 1000000000u, ns % 1000000000u);
}

const char *model_value(const model_figure_t *figure, apr_pool_t *p)
{
    return figure->kind == MODEL_COUNTER || figure->kind == MODEL_GAUGE
               ? apr_psprintf(p, "%" APR_UINT64_T_FMT, figure->value)
               : model_seconds(figure->value, p);
}
