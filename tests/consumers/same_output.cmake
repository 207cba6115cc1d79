# cmake -P: two programs print the same, and something.
cmake_minimum_required(VERSION 3.20)

execute_process(COMMAND "${FIRST}" OUTPUT_VARIABLE first COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND "${SECOND}" OUTPUT_VARIABLE second COMMAND_ERROR_IS_FATAL ANY)
string(LENGTH "${first}" length)
if(length LESS 100)
  message(FATAL_ERROR "${FIRST} printed only '${first}'")
endif()
if(NOT first STREQUAL second)
  message(FATAL_ERROR "${FIRST} printed\n${first}\n${SECOND} printed\n${second}")
endif()
