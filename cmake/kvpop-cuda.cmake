# kvpop::cuda: the same headers and the CUDA runtime, where the consumer has enabled CUDA; kvpop never enables it. Included
# by kvpop's own CMakeLists.txt and by the installed package.

get_property(kvpop_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if("CUDA" IN_LIST kvpop_languages AND NOT TARGET kvpop::cuda)
  find_package(CUDAToolkit REQUIRED)
  add_library(kvpop::cuda INTERFACE IMPORTED GLOBAL)
  target_link_libraries(kvpop::cuda INTERFACE kvpop::kvpop CUDA::cudart)
  # cuda_std_20 would say this, but CMake 3.25 does not know it for nvcc 13. A standard that the consumer set stays.
  target_compile_options(
    kvpop::cuda INTERFACE "$<$<AND:$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>,$<STREQUAL:$<TARGET_PROPERTY:CUDA_STANDARD>,>>:-std=c++20>")
endif()
