# SPDX-License-Identifier: Apache-2.0
# `lmtrace list-plugins --json` (two blanks of indentation a level) as lines of tab-separated words:
#   command NAME SUMMARY | adapter NAME SUMMARY | option OWNER --NAME TYPE RANGE HELP | key ADAPTER NAME TYPE RANGE HELP
# An empty RANGE is -. OWNER is a command, `replay` for the options of a level, or `-` for all commands. No quote of the shell stands in here.
function text(s,    out, i, c) {
  if (s == "null") return ""
  if (s ~ /^".*"$/) s = substr(s, 2, length(s) - 2)
  # 92 is the backslash; fish would eat one that is written here.
  while ((i = index(s, sprintf("%c", 92))) > 0) {
    c = substr(s, i + 1, 1)
    out = out substr(s, 1, i - 1) (c == "u" ? "?" : c == "n" || c == "t" ? " " : c)
    s = substr(s, i + (c == "u" ? 6 : 2))
  }
  return out s
}
function option(kind, owner, dashes, d,    name, type) {
  name = v[d, "name"]; type = v[d, "type"]
  printf "%s\t%s\t%s%s\t%s\t%s\t%s\n", kind, owner, dashes, name, type, (v[d, "range"] == "" ? "-" : v[d, "range"]), v[d, "help"]
  if (v[d, "negatable"] == "true")
    printf "%s\t%s\t%sno-%s\t%s\t-\t%s\n", kind, owner, dashes, name, type, v[d, "help"]
}
{
  match($0, /^ */); d = RLENGTH; line = substr($0, d + 1); sub(/,$/, "", line)
  if (line ~ /^"[^"]*": [[]$/) { list[d] = substr(line, 2, index(line, "\": ") - 2); next }
  if (line ~ /^"[^"]*": /) { i = index(line, "\": "); v[d, substr(line, 2, i - 2)] = text(substr(line, i + 3)); next }
  if (line != "}") next
  what = list[d - 2]
  if (what == "global_options") option("option", "-", "--", d + 2)
  else if (what == "options") {
    # The object around comes to its end later; its name stands first.
    owner = v[d - 2, "name"]; kind = list[d - 6]
    if (kind == "commands") option("option", owner, "--", d + 2)
    else if (kind == "levels") option("option", "replay", "--", d + 2)
    else if (kind == "adapters") option("key", owner, "", d + 2)
  }
  else if (what == "commands") printf "command\t%s\t%s\n", v[d + 2, "name"], v[d + 2, "summary"]
  else if (what == "adapters") printf "adapter\t%s\t%s\n", v[d + 2, "name"], v[d + 2, "summary"]
  else if (what == "aliases") printf "adapter\t%s\tAnother name of %s\n", v[d + 2, "name"], v[d + 2, "of"]
}
