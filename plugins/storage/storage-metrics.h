/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <glib.h>

G_BEGIN_DECLS

/**
 * StorageMetrics: `/metrics` in Prometheus' text format on 127.0.0.1, for a replay that was given --prometheus-port. A thread of
 * its own answers with the last text it was given, so the replay waits for nobody.
 */
typedef struct _StorageMetrics StorageMetrics;

/* Errors: the port is taken or not ours to open. @port 0: any (tests). */
StorageMetrics *storage_metrics_new (guint16 port, GError **error);
void storage_metrics_free (StorageMetrics *metrics);
guint16 storage_metrics_get_port (const StorageMetrics *metrics);
/* Copies @text. Any thread. */
void storage_metrics_set (StorageMetrics *metrics, const char *text, gsize len);

G_END_DECLS
