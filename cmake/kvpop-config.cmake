include("${CMAKE_CURRENT_LIST_DIR}/kvpop-targets.cmake")
include("${CMAKE_CURRENT_LIST_DIR}/kvpop-cuda.cmake")
