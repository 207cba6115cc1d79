# Install rules: the headers, the target, and a package whose version file refuses an incompatible version.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(KVPOP_PACKAGE_DIR "${CMAKE_INSTALL_DATADIR}/cmake/kvpop")

install(DIRECTORY include/kvpop DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.hpp" PATTERN "*.cuh")
install(TARGETS kvpop EXPORT kvpop-targets INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
install(EXPORT kvpop-targets NAMESPACE kvpop:: DESTINATION "${KVPOP_PACKAGE_DIR}")

# While the major version is 0, a minor version may break its callers.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/kvpop-config-version.cmake" COMPATIBILITY SameMinorVersion
                                 ARCH_INDEPENDENT)
install(FILES "${PROJECT_SOURCE_DIR}/cmake/kvpop-config.cmake" "${PROJECT_SOURCE_DIR}/cmake/kvpop-cuda.cmake"
              "${PROJECT_BINARY_DIR}/kvpop-config-version.cmake" DESTINATION "${KVPOP_PACKAGE_DIR}")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/kvpop")
