# kvpop_require(<dependency> <out-var>): puts the CMake target of a dependency of tests, bench or examples into <out-var>.
# An installed package is used first; with KVPOP_FETCH_DEPS one that is missing is downloaded at a fixed version; else the
# configuration stops and names the Debian package. The library itself requires nothing.

include(FetchContent)

# <dependency>_<what>: how each is found. PACKAGE: find_package; MODULE: pkg-config.
set(KVPOP_doctest PACKAGE doctest TARGET doctest::doctest DEBIAN doctest-dev
    URL https://github.com/doctest/doctest/archive/refs/tags/v2.4.9.tar.gz)
set(KVPOP_nlohmann_json PACKAGE nlohmann_json TARGET nlohmann_json::nlohmann_json DEBIAN nlohmann-json3-dev
    URL https://github.com/nlohmann/json/archive/refs/tags/v3.11.2.tar.gz)
set(KVPOP_CLI11 PACKAGE CLI11 TARGET CLI11::CLI11 DEBIAN libcli11-dev
    URL https://github.com/CLIUtils/CLI11/archive/refs/tags/v2.1.2.tar.gz)
set(KVPOP_benchmark PACKAGE benchmark TARGET benchmark::benchmark_main DEBIAN libbenchmark-dev
    URL https://github.com/google/benchmark/archive/refs/tags/v1.7.1.tar.gz)
# No download for these: their own build systems are not CMake, or take longer than the whole of this project's.
set(KVPOP_pcre2 MODULE libpcre2-8 TARGET PkgConfig::pcre2 DEBIAN libpcre2-dev)
set(KVPOP_utf8proc MODULE libutf8proc TARGET PkgConfig::utf8proc DEBIAN libutf8proc-dev)
set(KVPOP_openblas MODULE openblas TARGET PkgConfig::openblas DEBIAN libopenblas-dev)

macro(kvpop_find_installed name)
  if(KVPOP_DEP_PACKAGE)
    find_package(${KVPOP_DEP_PACKAGE} QUIET CONFIG)
  else()
    find_package(PkgConfig QUIET)
    if(PkgConfig_FOUND)
      pkg_check_modules(${name} QUIET IMPORTED_TARGET ${KVPOP_DEP_MODULE})
    endif()
  endif()
endmacro()

# A macro: the imported targets must be visible in the directory that asks for them.
macro(kvpop_require name out)
  cmake_parse_arguments(KVPOP_DEP "" "PACKAGE;MODULE;TARGET;DEBIAN;URL" "" ${KVPOP_${name}})
  kvpop_find_installed(${name})
  if(NOT TARGET ${KVPOP_DEP_TARGET} AND KVPOP_FETCH_DEPS AND KVPOP_DEP_URL)
    set(BENCHMARK_ENABLE_TESTING OFF)  # Google Benchmark's own tests need googletest
    FetchContent_Declare(kvpop_${name} URL ${KVPOP_DEP_URL})
    FetchContent_MakeAvailable(kvpop_${name})
  endif()
  if(NOT TARGET ${KVPOP_DEP_TARGET})
    set(hint "apt-get install ${KVPOP_DEP_DEBIAN}")
    if(KVPOP_DEP_URL)
      string(APPEND hint ", or configure with -DKVPOP_FETCH_DEPS=ON")
    endif()
    message(FATAL_ERROR "kvpop: ${name} was not found: ${hint}")
  endif()
  set(${out} ${KVPOP_DEP_TARGET})
endmacro()
