# Results of `qwen3 eval --json` as rows, a method and budget each, for tables:
#   file method compression budget accuracy kl kl_low kl_high agreement loss excess excess_low excess_high recall   - where there is none
# The JSON is the engine's own, a member a line.
function value(line) { sub(/^[^:]*: */, "", line); gsub(/[",]/, "", line); return line == "null" ? "-" : line }
function had(name) { return name in row ? row[name] : "-" }
FNR == 1 { file = FILENAME; sub(/.*\//, "", file); sub(/\.json$/, "", file) }
/^      "[a-z_]+": / && !/\[$/ { name = $1; gsub(/[":]/, "", name); row[name] = value($0) }
/^    \}/ {
  print file, had("method"), had("compression"), had("budget"), had("accuracy"), had("kl"), had("kl_low"), had("kl_high"),
    had("agreement"), had("loss"), had("excess"), had("excess_low"), had("excess_high"), had("recall")
  delete row
}
