/* SPDX-License-Identifier: Apache-2.0 */
#include <lmtrace/lmt-error.h>

#include <string.h>

static void
expect (const LmtFault *fault, const char *text)
{
  g_autofree char *line = lmt_fault_to_string (fault);

  g_assert_cmpstr (line, ==, text);
}

static void
test_to_string (void)
{
  LmtFault fault = { .number = 17,
                     .offset = 10815,
                     .where = "args.keys[%u]",
                     .index = 3,
                     .expected = "ObjectKey",
                     .found = "array of",
                     .found_n = 4,
                     .has_found_n = 1 };

  expect (&fault, "record 17 at offset 10815: args.keys[3]: expected ObjectKey, found array of 4");
  fault.has_found_n = 0;
  fault.length = 99;
  expect (&fault, "record 17 at offset 10815 (99 bytes): args.keys[3]: expected ObjectKey, found array of");
  fault = (LmtFault){ .offset = 5, .reason = "unknown tag" };
  lmt_fault_set_detail (&fault, "Tag", 3);
  expect (&fault, "frame 0 at offset 5: unknown tag: Tag");
  fault = (LmtFault){ .number = 1, .where = "args %% %s", .found = "x" };
  expect (&fault, "record 1 at offset 0: args %% %s: found x");
}

static void
test_detail (void)
{
  LmtFault fault = { 0 };
  char longest[200];

  memset (longest, 'a', sizeof longest);
  lmt_fault_set_detail (&fault, longest, sizeof longest);
  g_assert_cmpuint (strlen (fault.detail), ==, sizeof fault.detail - 1);
  lmt_fault_set_detail (&fault, "a\nb\x7f\xff", 5);
  g_assert_cmpstr (fault.detail, ==, "a?b??");
  /* Not cut within a character. */
  memset (longest, 'a', 45);
  memcpy (longest + 45, "\xc3\xa9", 3);
  lmt_fault_set_detail (&fault, longest, 47);
  g_assert_cmpuint (strlen (fault.detail), ==, 45);
  lmt_fault_set_detail (&fault, longest + 1, 46);
  g_assert_cmpuint (strlen (fault.detail), ==, 46);
  g_assert_true (g_utf8_validate (fault.detail, -1, NULL));
  lmt_fault_set_detail (&fault, "", 0);
  g_assert_cmpstr (fault.detail, ==, "");
}

static void
test_domains (void)
{
  g_assert_cmpstr (g_quark_to_string (LMT_ERROR), ==, "LmtError");
  g_assert_cmpstr (g_quark_to_string (LMT_L2_ERROR), ==, "lmt-l2-error-quark");
}

/* Where it was, beside the message: set by whoever is nearest to the trouble, kept on the way up. */
static void
test_place (void)
{
  g_autoptr (GError) error = g_error_new_literal (LMT_ERROR, LMT_ERROR_CORRUPT, "a: b.lct: not-a-map");
  g_autoptr (GError) copy = NULL;
  g_autoptr (GError) other = g_error_new_literal (LMT_L2_ERROR, 1, "fs: not found");

  g_assert_null (lmt_error_get_file (error));
  g_assert_cmpint (lmt_error_get_offset (error), ==, -1);
  lmt_error_set_place (error, "a: b\xff.lct", -1);
  lmt_error_set_place (error, "another", 17);
  g_prefix_error (&error, "in front: ");
  copy = g_error_copy (error);
  g_assert_cmpstr (lmt_error_get_file (copy), ==, "a: b\xff.lct");
  g_assert_cmpint (lmt_error_get_offset (copy), ==, 17);
  lmt_error_set_place (other, "x", 1);
  lmt_error_set_place (NULL, "x", 1);
  g_assert_null (lmt_error_get_file (other));
  g_assert_cmpint (lmt_error_get_offset (other), ==, -1);
  g_assert_null (lmt_error_get_file (NULL));
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/error/to-string", test_to_string);
  g_test_add_func ("/error/detail", test_detail);
  g_test_add_func ("/error/domains", test_domains);
  g_test_add_func ("/error/place", test_place);
  return g_test_run ();
}
