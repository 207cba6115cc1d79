// Reaching main means that every header's file was compiled and that all of them were linked together.
int main() { return 0; }
