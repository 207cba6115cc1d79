# kvpop_own_target(<target>): what every test, benchmark and example of this repository is compiled with. A target
# property only, so neither a consumer nor a third party's code ever sees these flags.

find_package(Threads REQUIRED)

add_library(kvpop_own_flags INTERFACE)
target_link_libraries(kvpop_own_flags INTERFACE kvpop::kvpop Threads::Threads)
target_compile_options(
  kvpop_own_flags
  INTERFACE -Wall
            -Wextra
            -Wconversion
            -Wshadow
            -Wpedantic
            # g++ 12 warns falsely of "x" + std::string: https://gcc.gnu.org/bugzilla/show_bug.cgi?id=105651
            $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
            # g++ 12.2 with AVX-512 stores a constant {2, 2, 0, 0} as a broadcast of its 2: no moves wider than 128 bits.
            $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>,$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},x86_64>>:-mmove-max=128>
            $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>,$<STREQUAL:${CMAKE_SYSTEM_PROCESSOR},x86_64>>:-mstore-max=128>
            # g++ 12 does not vectorise at RelWithDebInfo's -O2.
            $<$<CONFIG:RelWithDebInfo>:-O3>
            $<$<BOOL:${KVPOP_WERROR}>:-Werror>)

if(KVPOP_ARCH)
  target_compile_options(kvpop_own_flags INTERFACE "-march=${KVPOP_ARCH}")
endif()

if(KVPOP_SANITIZE)
  # -O1 -g1: the sanitizer's own advice for speed, and line numbers in reports for little compile time.
  set(KVPOP_SANITIZE_FLAGS "-fsanitize=${KVPOP_SANITIZE}" -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g1)
  target_compile_options(kvpop_own_flags INTERFACE ${KVPOP_SANITIZE_FLAGS})
  target_link_options(kvpop_own_flags INTERFACE ${KVPOP_SANITIZE_FLAGS})
endif()

function(kvpop_own_target target)
  target_link_libraries(${target} PRIVATE kvpop_own_flags)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
endfunction()
