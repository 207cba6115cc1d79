# Turns the ```cpp blocks of a Markdown file into one program: includes go to the top, blocks that begin with the comment
# "// at namespace scope" before main, all others into main, in order and in one scope, as a reader would type them.
BEGIN { where = "" }
/^```cpp/ { inside = 1; first = 1; scope = 0; next }
/^```/ && inside { inside = 0; next }
inside {
  if (first && $0 ~ /^\/\/ at namespace scope/) { scope = 1 }
  first = 0
  if ($0 ~ /^#include/) { includes = includes $0 "\n" }
  else if (scope) { outside = outside "#line " FNR " \"" FILENAME "\"\n" $0 "\n" }
  else { body = body "#line " FNR " \"" FILENAME "\"\n" $0 "\n" }
}
END { printf "%s%s\nint main() {\n%s\n}\n", includes, outside, body }
