include("${CMAKE_CURRENT_LIST_DIR}/kvpop-targets.cmake")

# As in kvpop's own build: the consumer enables CUDA, never this package.
get_property(kvpop_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if("CUDA" IN_LIST kvpop_languages AND NOT TARGET kvpop::cuda)
  include(CMakeFindDependencyMacro)
  find_dependency(CUDAToolkit)
  add_library(kvpop::cuda INTERFACE IMPORTED)
  set_target_properties(kvpop::cuda PROPERTIES INTERFACE_LINK_LIBRARIES "kvpop::kvpop;CUDA::cudart"
                                               INTERFACE_COMPILE_FEATURES cuda_std_20)
endif()
