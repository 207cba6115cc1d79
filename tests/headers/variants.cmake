# cmake -P: parses a file that includes every header (EVERY) under the flags and macros of other people's builds, and checks
# that no macro without our prefix is defined.

set(warnings -Wall -Wextra -Wconversion -Wshadow -Wpedantic -Werror)
set(failed FALSE)

function(kvpop_parse what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message("${what}: FAILED\n${output}")
    set(failed TRUE PARENT_SCOPE)
  else()
    message("${what}: ok")
  endif()
endfunction()

function(kvpop_parse_variant what)
  kvpop_parse("${what}" "${CXX}" -std=c++20 -fsyntax-only ${warnings} "-I${INCLUDE}" ${ARGN} "${EVERY}")
  set(failed ${failed} PARENT_SCOPE)
endfunction()

kvpop_parse_variant("other people's macros" -include "${TRAPS}")
kvpop_parse_variant("no exceptions, no RTTI" -fno-exceptions -fno-rtti)
kvpop_parse_variant("fast math" -ffast-math)
kvpop_parse_variant("the next standard" -std=c++2b)
kvpop_parse_variant("the compiler's own dialect" -std=gnu++20)

file(GLOB_RECURSE headers "${INCLUDE}/*.hpp" "${INCLUDE}/*.cuh")
foreach(header IN LISTS headers)
  file(STRINGS "${header}" defines REGEX "^[ \t]*#[ \t]*define[ \t]+")
  foreach(define IN LISTS defines)
    if(NOT define MATCHES "define[ \t]+KVPOP_")
      message("${header}: ${define}\n  a macro must begin with KVPOP_")
      set(failed TRUE)
    endif()
  endforeach()
endforeach()

foreach(header IN LISTS CUDA_HEADERS)
  if(NVCC)
    kvpop_parse("${header}" "${NVCC}" -x cu -std=c++20 -c -o /dev/null "-I${INCLUDE}" "${INCLUDE}/${header}")
  else()
    message("${header}: skipped, there is no nvcc")
  endif()
endforeach()

if(failed)
  message(FATAL_ERROR "some variants do not compile")
endif()
