/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmt-plugin.h>

#include <string.h>

static guint32
call_ok (gpointer session, const LmtRecord *record, LmtOutcome *outcome)
{
  return LMT_STATUS_OK;
}

static const LmtHandlerOps handlers[] = {
  { sizeof (LmtHandlerOps), 0, "mq", "Q.push", call_ok },
  { sizeof (LmtHandlerOps), 0, "mq", "Q.pop", call_ok },
  { sizeof (LmtHandlerOps), 0, "mq", "Q.drain.__enter__", call_ok },
  { sizeof (LmtHandlerOps), 0, "other", "Q.peek", call_ok },
};

static gboolean
load (LmtRegistrar *reg, GError **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (handlers); i++)
    if (!lmt_registrar_add_handler (reg, &handlers[i], error))
      return FALSE;
  return TRUE;
}

static gint
find (LmtDispatch *dispatch, const char *qualname, gsize len)
{
  return lmt_dispatch_find (dispatch, (LmtSpan){ (const guint8 *)qualname, len });
}

static void
test_find (void)
{
  g_autoptr (LmtRegistry) registry = lmt_registry_new ();
  LmtDispatch *dispatch;

  lmt_registry_set_default_dirs (registry, FALSE);
  g_assert_true (lmt_registry_load_builtin (registry, "test", load, NULL));
  dispatch = lmt_dispatch_new (registry, "mq");
  g_assert_cmpuint (lmt_dispatch_size (dispatch), ==, 3);
  for (int round = 0; round < 2; round++)
    for (guint i = 0; i < 3; i++)
      {
        gint index = find (dispatch, handlers[i].qualname, strlen (handlers[i].qualname));

        g_assert_cmpint (index, >=, 0);
        g_assert_cmpstr (lmt_dispatch_get (dispatch, index)->qualname, ==, handlers[i].qualname);
        g_assert_cmpint (index, ==, find (dispatch, handlers[i].qualname, strlen (handlers[i].qualname)));
      }
  /* another level's, a prefix, a longer one, an empty one, one with a NUL */
  g_assert_cmpint (find (dispatch, "Q.peek", 6), ==, -1);
  g_assert_cmpint (find (dispatch, "Q.pop", 4), ==, -1);
  g_assert_cmpint (find (dispatch, "Q.pops", 6), ==, -1);
  g_assert_cmpint (find (dispatch, "", 0), ==, -1);
  g_assert_cmpint (find (dispatch, "Q.pop\0", 6), ==, -1);
  lmt_dispatch_free (dispatch);
}

static void
test_frozen (void)
{
  g_autoptr (LmtRegistry) registry = lmt_registry_new ();
  LmtDispatch *dispatch;
  LmtOutcome outcome = { 0 };

  lmt_registry_set_default_dirs (registry, FALSE);
  g_assert_true (lmt_registry_load_builtin (registry, "test", load, NULL));
  dispatch = lmt_dispatch_new (registry, "mq");
  /* The registry's tables may go: the loop reads its own. */
  lmt_registry_unload (registry);
  g_assert_cmpuint (lmt_dispatch_get (dispatch, find (dispatch, "Q.pop", 5))->call (NULL, NULL, &outcome), ==, LMT_STATUS_OK);
  lmt_dispatch_free (dispatch);
}

static void
test_none (void)
{
  g_autoptr (LmtRegistry) registry = lmt_registry_new ();
  LmtDispatch *dispatch;

  lmt_registry_set_default_dirs (registry, FALSE);
  dispatch = lmt_dispatch_new (registry, "mq");
  g_assert_cmpuint (lmt_dispatch_size (dispatch), ==, 0);
  g_assert_cmpint (find (dispatch, "Q.pop", 5), ==, -1);
  lmt_dispatch_free (dispatch);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/dispatch/find", test_find);
  g_test_add_func ("/dispatch/frozen", test_frozen);
  g_test_add_func ("/dispatch/none", test_none);
  return g_test_run ();
}
