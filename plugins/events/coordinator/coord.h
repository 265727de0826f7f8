// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gio/gio.h>
#include <lmtrace/lmt-plugin.h>

#include "events-views.h"

G_BEGIN_DECLS

/**
 * The coordinator (events.md 10, 14): one process, one thread, one main loop. Rooms:
 *
 *   coord-main       options, start, end
 *   coord-server     listeners, connections and their clocks, libsoup; turns HTTP into a CoordRequest and back
 *   coord-route      path and method -> handler, as the reference's router decides it
 *   coord-api-*      what an endpoint does; they see a CoordRequest, never libsoup
 *   coord-text       JSON replies, problems, query strings
 *   coord-instances  registered servers and the sweep
 *   coord-evict      the eviction loop; coord-client sends what it and the cache endpoints send to servers
 *   coord-state      checkpoint and metadata files
 *   coord-source     where batches come from: HTTP, or a feed of another kind
 *   coord-metrics    GET /metrics
 *
 * Threads: all of it belongs to the thread of the main loop.
 */
typedef struct _Coord Coord;
typedef struct _CoordRequest CoordRequest;
typedef struct _CoordServer CoordServer;
typedef struct _CoordClient CoordClient;
typedef struct _CoordSource CoordSource;

/* What the options say; offsets of the table in coord-options.c. */
typedef struct
{
  /* the reference's */
  char *host;
  guint64 port;
  gint64 instance_timeout_ns;
  gint64 health_check_interval_ns;
  gint64 eviction_check_interval_ns;
  double eviction_ratio;
  double trigger_watermark;
  guint64 chunk_size;
  char *hash_algorithm;
  guint32 enable_blend_lookup;
  guint32 disable_metrics;
  guint64 blend_probe_stride;
  char *checkpoint_path;
  gint64 checkpoint_interval_ns;
  char *metadata_path;
  char *extra_config;
  gint64 timeout_keep_alive_ns;
  char *otlp_endpoint;
  char *event_transport;
  char *kafka_bootstrap_servers;
  char *kafka_topic;
  char *kafka_group_id;
  char **kafka_config;
  /* ours */
  char *compat_word;
  char *unix_path;
  char *token_file;
  char *tls_cert;
  char *tls_key;
  guint32 insecure;
  guint32 reserved;
  gint64 ready_fd;
  gint64 exit_after_idle_ns;
  gint64 request_timeout_ns;
  guint64 max_body_bytes;
  guint64 max_connections;
  guint64 max_keys;
  guint64 max_instances;
  guint64 max_nesting;
  guint64 max_batch_entries;
  guint64 max_entry_tokens;
  guint64 max_string_bytes;
} CoordConfig;
extern const LmtOption coord_options[];

/* A registered server (events.md 9.4). */
typedef struct
{
  GBytes *id; /* key of the table */
  GBytes *ip;
  gint64 http_port;
  gint64 mq_port;
  double registration_time; /* Unix seconds */
  gint64 heartbeat_ns;      /* monotonic */
  GString *metadata_json;   /* the object's text, as it is shown */
  GBytes *p2p_url;
  GList link; /* place in the order of registration */
} CoordInstance;

/* One background loop, as the metrics show it. */
typedef struct
{
  guint64 passes;
  guint64 failed;
  double last_success; /* Unix seconds; 0: never */
} CoordLoop;

struct _Coord
{
  const CoordConfig *config;
  EventsCompat compat;
  EventsLimits limits;
  EventsViews *views;
  LmtWarnings *warnings; /* (nullable): the run's */
  EventsArena *arena;    /* of the request that is being answered */

  GHashTable *instances; /* GBytes -> CoordInstance */
  GQueue order;          /* CoordInstance by registration */

  CoordServer *server;
  CoordClient *client;
  CoordSource *source;
  GArray *offsets; /* EventsKafkaOffset: positions a feed keeps in the checkpoint */
  char *token;     /* (nullable): what Authorization must hold */
  gsize token_len;

  guint sweep_timer, evict_timer, checkpoint_timer, blocked_timer;
  CoordLoop sweep, evict, checkpoint;
  EventsCheckpointChild *checkpoint_child; /* (nullable): who writes just now */
  guint checkpoint_watch;
  GQueue checkpoint_waits[2]; /* requests that wait for it, and those that came while it was being written: for the next one */
  guint64 checkpoint_failures;
  guint n_dumps;          /* being written */
  double last_checkpoint; /* Unix seconds; 0: none yet */

  /* figures */
  gint64 start_ns;
  EventsCounts counts; /* of all batches since the start */
  gint64 ingest_ns;
  gint64 blocked_ns;
  gint64 blocked_due_ns;
  GHashTable *requests; /* "METHOD PATHFORM STATUS" -> CoordRequestFigures */
  guint64 body_bytes_in, body_bytes_out;
  guint64 n_requests;
};

typedef struct
{
  char *method;
  const char *path; /* form of the route, or "unmatched" */
  guint status;
  guint64 n;
  gint64 ns;
} CoordRequestFigures;

/* @warnings: (nullable): where gaps and fences are told; lives longer */
Coord *coord_new (const CoordConfig *config, LmtWarnings *warnings);
void coord_free (Coord *coord);

/* -------- requests -------- */

typedef void (*CoordDone) (CoordRequest *request, gpointer user_data);

/**
 * CoordRequest: one request and its reply. Everything that comes in is borrowed for the call of coord_handle(); a handler that
 * answers later sets @deferred, copies what it needs and calls coord_request_finish().
 * @body_state: of the body as JSON: read by content type, no body, other content type
 */
typedef struct _CoordRoute CoordRoute;
struct _CoordRequest
{
  const char *method;
  const char *path;         /* as sent, still encoded */
  const char *query;        /* (nullable): as sent */
  const char *content_type; /* (nullable) */
  const char *authority;    /* host and port for a redirect */
  const char *scheme;
  const char *body;
  gsize body_len;
  gint64 start_ns;
  /* the router's */
  const CoordRoute *route;
  LmtSpan params[2]; /* decoded; in the arena or @decoded */
  char *decoded;
  GArray *query_pairs; /* CoordQueryPair, decoded on first use */
  /* the reply */
  guint status;
  guint32 deferred;
  guint32 finished;
  const char *type; /* content type; NULL: none */
  const char *allow;
  char *location;
  GString *out;
  /* whoever waits for it */
  CoordDone done;
  gpointer done_data;
  gpointer job; /* the deferred handler's, or NULL once it is over */
  void (*cancel) (gpointer job);
};

void coord_request_init (CoordRequest *request);
void coord_request_clear (CoordRequest *request);
/* Routes, answers; afterwards the reply stands in @request, unless it is deferred. Never fails. */
void coord_handle (Coord *coord, CoordRequest *request);
/* A deferred reply is complete. */
void coord_request_finish (Coord *coord, CoordRequest *request);
/* The other side is gone: nobody waits any more. */
void coord_request_cancel (CoordRequest *request);

typedef void (*CoordHandler) (Coord *coord, CoordRequest *request);
enum
{
  COORD_ROUTE_057 = 1 << 0,     /* unknown to 0.5.6 */
  COORD_ROUTE_METRICS = 1 << 1, /* gone with --disable-metrics */
};
struct _CoordRoute
{
  const char *method;
  const char *path; /* /instances/{instance_id}/heartbeat */
  CoordHandler handler;
  guint flags;
  const char *summary;
  const char *body;   /* schema of the request, or NULL */
  const char *reply;  /* schema of the reply, or NULL for text or nothing */
  const char *query;  /* "tier:Tier offset:integer", or NULL */
  const char *status; /* of success, and others: "200 404 502" */
};
extern const CoordRoute coord_routes[]; /* ends in a row without method; in the order in which they are tried */
gboolean coord_route_is_open (const Coord *coord, const CoordRoute *route);
/* Finds route or the reply without one: 404, 405, 307. */
gboolean coord_route_find (Coord *coord, CoordRequest *request);

/* -------- replies (coord-text.c) -------- */

void coord_text_string (GString *out, LmtSpan text); /* with quotes; UTF-8 as it is */
void coord_text_cstring (GString *out, const char *text);
void coord_text_int (GString *out, gint64 value);
void coord_text_double (GString *out, double value);
void coord_text_hex (GString *out, LmtSpan bytes); /* with quotes */
void coord_text_key (GString *out, const EventsKey *key, gboolean as_sent);
void coord_text_repr (GString *out, LmtSpan text);      /* 'text', as the reference's messages quote it */
void coord_reply (CoordRequest *request, guint status); /* JSON; the text is in @out */
void coord_reply_detail (CoordRequest *request, guint status, const char *format, ...) G_GNUC_PRINTF (3, 4);
void coord_reply_problems (CoordRequest *request, EventsProblems *problems);
void coord_reply_full (CoordRequest *request, const char *what, guint64 limit);

/* One more problem. @loc, @input, @ctx: JSON texts, borrowed; @ctx (nullable). */
void coord_problem (EventsProblems *problems, const char *type, const char *loc, const char *input, const char *ctx,
                    const char *format, ...) G_GNUC_PRINTF (6, 7);

/* The body as an object of @fields. FALSE: answered already. @problems: started, and cleared if FALSE. */
gboolean coord_body_fields (Coord *coord, CoordRequest *request, const EventsField *fields, guint n_fields, gpointer values,
                            EventsProblems *problems);
/* Is a body that is there JSON by its type? FALSE: answered already. */
gboolean coord_body_check (Coord *coord, CoordRequest *request);
/* What a reader of bodies returned; FALSE: answered already, @problems cleared. */
gboolean coord_body_result (Coord *coord, CoordRequest *request, EventsBodyResult result, EventsProblems *problems);
/* The one word of Tier in a RAW member. FALSE: a problem more. */
gboolean coord_take_tier (Coord *coord, LmtSpan raw, const char *loc, EventsProblems *problems, const char **word);

/* The last value of that name, decoded; NULL: not given. */
const char *coord_query_get (CoordRequest *request, const char *name);
gint64 coord_query_int (CoordRequest *request, const char *name, gint64 default_value, gint64 min, gint64 max,
                        EventsProblems *problems);
const char *coord_query_tier (CoordRequest *request, const char *default_word, EventsProblems *problems);
LmtSpan coord_query_span (CoordRequest *request, const char *name); /* absent or empty: data NULL */

/* -------- tokens (coord-tokens.c) -------- */

/* The keys of a token sequence (events.md 10): for each complete chunk, for each rank, group 0. */
typedef struct
{
  guint8 *hashes; /* chunks * 32 */
  guint32 chunks;
  guint32 world_size;
  LmtSpan model;
  LmtSpan salt;
} CoordChunks;
/* FALSE: answered already (400, 422). @chunks lives in the arena. */
gboolean coord_chunks_resolve (Coord *coord, CoordRequest *request, const gint64 *ids, guint32 n_ids, LmtSpan model, LmtSpan salt,
                               gint64 world_size, CoordChunks *chunks);
void coord_chunks_key (const CoordChunks *chunks, guint32 chunk, guint32 rank, EventsKey *key);

/* -------- registered servers (coord-instances.c) -------- */

CoordInstance *coord_instances_get (Coord *coord, LmtSpan id);
/* FALSE: the table is full. Takes @instance. */
gboolean coord_instances_put (Coord *coord, CoordInstance *instance, gboolean *replaced);
gboolean coord_instances_remove (Coord *coord, LmtSpan id);
void coord_instances_clear (Coord *coord);
CoordInstance *coord_instance_new (LmtSpan id);
void coord_instance_free (CoordInstance *instance);
/* One pass of the health check. */
void coord_instances_sweep (Coord *coord);
static inline LmtSpan
coord_span_of_bytes (GBytes *bytes)
{
  LmtSpan span;
  span.data = (const guint8 *)g_bytes_get_data (bytes, &span.len);
  return span;
}
static inline LmtSpan
coord_span_of_text (const char *text)
{
  LmtSpan span = { (const guint8 *)text, strlen (text) };
  return span;
}
/* For logs: controls and bytes that are no UTF-8 escaped, cut at 128 bytes. (transfer full) */
char *coord_span_show (LmtSpan span);

/* -------- calls to servers (coord-client.c) -------- */

/* @status 0: no answer, @error tells. @body: at most 1 MiB. */
typedef void (*CoordClientDone) (guint status, GBytes *body, const char *error, gpointer user_data);
CoordClient *coord_client_new (void);
void coord_client_free (CoordClient *client); /* cancels what is under way; every done function is called */
guint coord_client_n_open (CoordClient *client);
/* @body: (nullable) (transfer full): JSON. @cancel: (nullable): the caller's, to give up early */
void coord_client_send (CoordClient *client, const char *method, const CoordInstance *instance, const char *path, GString *body,
                        GCancellable *cancel, CoordClientDone done, gpointer user_data);
void coord_evict_pass (Coord *coord);

/* -------- files (coord-state.c) -------- */

void coord_state_load (Coord *coord);
gboolean coord_state_checkpoint (Coord *coord, GError **error);
/* Has it written by a process and answers @request when it is there; FALSE: no process can be had. */
gboolean coord_state_checkpoint_for (Coord *coord, CoordRequest *request);
void coord_state_abandon (Coord *coord);       /* the process that writes a checkpoint just now */
void coord_state_save_metadata (Coord *coord); /* after each change of a pin or quota; a failure is logged */
void coord_state_start_timers (Coord *coord);
void coord_state_stop_timers (Coord *coord);

/* -------- where batches come from (coord-source.c) -------- */

/**
 * A feed is what fills the views in place of POST /events: open() begins to read from the positions in coord->offsets and calls
 * coord_ingest() from the main loop; it notes the position of what it handed over in coord->offsets. close() ends it.
 */
typedef struct
{
  const char *name; /* of --event-transport */
  CoordSource *(*open) (Coord *coord, GError **error);
  void (*close) (CoordSource *source);
} CoordSourceOps;
extern const CoordSourceOps coord_kafka_feed; /* coord-kafka.c */
gboolean coord_source_start (Coord *coord, GError **error);
void coord_source_stop (Coord *coord);
/* NULL: POST /events is open; otherwise why it isn't. */
const char *coord_source_closed_door (const Coord *coord);
/* Gate and views, with counts and time taken; FALSE: a table is full. */
gboolean coord_ingest (Coord *coord, const EventsBatch *batches, guint32 n, EventsCounts *counts);

/* -------- HTTP (coord-server.c) -------- */

/* coord-end.c. @is_idle: no request is under way. (transfer full) */
typedef gboolean (*CoordEndIdle) (gpointer data);
GIOStream *coord_end_new (GIOStream *base, CoordEndIdle is_idle, gpointer data);
CoordServer *coord_server_new (Coord *coord, GError **error); /* bound and listening */
void coord_server_free (CoordServer *server);
const char *coord_server_url (CoordServer *server); /* http://127.0.0.1:9300 or unix:/path */
/* Waits for something to do and does it, or gives up waiting: one turn of the main loop. One client that sends request after
 * request is waited for awake. */
void coord_server_turn (CoordServer *server);
/* No new connections, idle ones are closed. */
void coord_server_stop_listening (CoordServer *server);
guint coord_server_n_connections (CoordServer *server);
guint coord_server_n_busy (CoordServer *server); /* with a request under way */
guint64 coord_server_n_refused (CoordServer *server);
guint64 coord_server_n_slow (CoordServer *server);
gint64 coord_server_last_activity_ns (CoordServer *server);
void coord_server_note_activity (CoordServer *server); /* for --exit-after-idle: of another kind than a request */

/* coord-tls.c. The pair of --tls-cert and --tls-key, after a handshake with itself; without the options: TRUE and NULL. */
gboolean coord_tls_load (Coord *coord, GTlsCertificate **certificate, GError **error);

void coord_metrics_write (Coord *coord, GString *out);
void coord_openapi_write (Coord *coord, GString *out);
void coord_docs_write (Coord *coord, GString *out);

/* -------- the endpoints -------- */

void coord_api_healthz (Coord *coord, CoordRequest *request);
void coord_api_metrics (Coord *coord, CoordRequest *request);
void coord_api_events (Coord *coord, CoordRequest *request);
void coord_api_chunk_size (Coord *coord, CoordRequest *request);
void coord_api_instances_post (Coord *coord, CoordRequest *request);
void coord_api_instances_get (Coord *coord, CoordRequest *request);
void coord_api_heartbeat (Coord *coord, CoordRequest *request);
void coord_api_instances_delete (Coord *coord, CoordRequest *request);
void coord_api_usage_all (Coord *coord, CoordRequest *request);
void coord_api_usage_one (Coord *coord, CoordRequest *request);
void coord_api_lookup (Coord *coord, CoordRequest *request);
void coord_api_blend (Coord *coord, CoordRequest *request);
void coord_api_keys (Coord *coord, CoordRequest *request);
void coord_api_stats (Coord *coord, CoordRequest *request);
void coord_api_quota_list (Coord *coord, CoordRequest *request);
void coord_api_quota_get (Coord *coord, CoordRequest *request);
void coord_api_quota_put (Coord *coord, CoordRequest *request);
void coord_api_quota_delete (Coord *coord, CoordRequest *request);
void coord_api_quota_config_get (Coord *coord, CoordRequest *request);
void coord_api_quota_config_put (Coord *coord, CoordRequest *request);
void coord_api_pins_post (Coord *coord, CoordRequest *request);
void coord_api_pins_delete (Coord *coord, CoordRequest *request);
void coord_api_pins_get (Coord *coord, CoordRequest *request);
void coord_api_prefetch_post (Coord *coord, CoordRequest *request);
void coord_api_prefetch_get (Coord *coord, CoordRequest *request);
void coord_api_cache_delete (Coord *coord, CoordRequest *request);
void coord_api_streams (Coord *coord, CoordRequest *request);
void coord_api_checkpoint (Coord *coord, CoordRequest *request);
void coord_api_checkpoint_done (Coord *coord, CoordRequest *request, const GError *error);
void coord_api_reset (Coord *coord, CoordRequest *request);
void coord_api_dump (Coord *coord, CoordRequest *request);
void coord_api_openapi (Coord *coord, CoordRequest *request);
void coord_api_docs (Coord *coord, CoordRequest *request);

G_END_DECLS
