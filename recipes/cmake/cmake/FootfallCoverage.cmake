# FootfallCoverage: which code do the tests run? Copy this file into your project.
#
#   list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_SOURCE_DIR}/cmake")
#   include(FootfallCoverage)      # before the first target, in the topmost CMakeLists.txt
#
# Configured with -D FOOTFALL_COVERAGE=ON, all C and C++ that is compiled from there on
# counts what runs, and there are more targets:
#
#   coverage         runs all tests, from zero, and reports
#   coverage-report  reports what ran since, by tests or by hand
#   coverage-tests   runs each test by itself: coverage-tests.json in the build directory
#                    says which test ran what, for footfall report --tests-for-diff
#   coverage-reset   starts from zero
#
# What is reported, and how, is said in footfall.toml beside the CMakeLists.txt.
# FOOTFALL_REPORT has more options, such as -D FOOTFALL_REPORT="--output;html=pages".
#
# CMake 3.19 or later; GCC or Clang.

if(NOT CMAKE_SCRIPT_MODE_FILE)
  include_guard(GLOBAL)
  option(FOOTFALL_COVERAGE "Count what runs, and add targets that report it" OFF)
  if(NOT FOOTFALL_COVERAGE)
    return()
  endif()
  find_program(FOOTFALL_EXECUTABLE footfall REQUIRED)
  set(FOOTFALL_REPORT "" CACHE STRING "More options of footfall report")

  # Atomic, so that threads lose no counts, and a running program can be read.
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:--coverage;-fprofile-update=atomic>")
  add_link_options("$<$<LINK_LANGUAGE:C,CXX>:--coverage>")

  # This file is also the script that the targets run.
  foreach(_footfall_step IN ITEMS run report tests reset)
    set(_footfall_target coverage-${_footfall_step})
    if(_footfall_step STREQUAL "run")
      set(_footfall_target coverage)
    endif()
    add_custom_target(${_footfall_target}
      COMMAND "${CMAKE_COMMAND}"
        -D "STEP=${_footfall_step}" -D "BUILD=${CMAKE_BINARY_DIR}" -D "CONFIG=$<CONFIG>"
        -D "CTEST=${CMAKE_CTEST_COMMAND}" -D "FOOTFALL=${FOOTFALL_EXECUTABLE}" -D "REPORT=${FOOTFALL_REPORT}"
        -P "${CMAKE_CURRENT_LIST_FILE}"
      WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}" # where footfall.toml is
      USES_TERMINAL VERBATIM)
  endforeach()
  return()
endif()

# reset removes what programs have counted.
function(reset)
  file(GLOB_RECURSE data LIST_DIRECTORIES FALSE "${BUILD}/*.gcda")
  if(data)
    file(REMOVE ${data})
  endif()
endfunction()

# report reports what is below the build directory.
function(report)
  execute_process(COMMAND "${FOOTFALL}" report "${BUILD}" ${REPORT} RESULT_VARIABLE status)
  if(NOT status EQUAL 0) # 3: less is covered than footfall.toml asks for
    message(FATAL_ERROR "footfall report: exit status ${status}")
  endif()
endfunction()

# run runs all tests and reports, also if some fail.
function(run)
  execute_process(COMMAND "${CTEST}" --test-dir "${BUILD}" -C "${CONFIG}" --output-on-failure RESULT_VARIABLE status)
  report()
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "tests failed")
  endif()
endfunction()

# run_each runs each test by itself. Its programs write their data below a directory of its
# own, so that the tests' are kept apart.
function(run_each)
  execute_process(COMMAND "${CTEST}" --test-dir "${BUILD}" -C "${CONFIG}" --show-only=json-v1
    OUTPUT_VARIABLE list COMMAND_ERROR_IS_FATAL ANY)
  string(JSON count LENGTH "${list}" tests)
  if(count EQUAL 0)
    message(FATAL_ERROR "CTest knows no tests: add_test after enable_testing()")
  endif()
  set(data "${BUILD}/coverage-tests")
  file(REMOVE_RECURSE "${data}")
  set(reports "")
  foreach(number RANGE 1 ${count})
    math(EXPR index "${number} - 1")
    string(JSON name GET "${list}" tests ${index} name)
    execute_process(
      COMMAND "${CMAKE_COMMAND}" -E env "GCOV_PREFIX=${data}/${number}"
        "${CTEST}" --test-dir "${BUILD}" -C "${CONFIG}" -I ${number},${number} --output-on-failure
      RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
    if(NOT status EQUAL 0)
      message("${said}")
    endif()
    if(NOT EXISTS "${data}/${number}") # it ran nothing that counts
      message("${name}: it ran no code that counts")
      continue()
    endif()
    execute_process(
      COMMAND "${FOOTFALL}" report "${data}/${number}" --object-directory "${BUILD}" --quiet
        --test "${name}" --output "json=${data}/${number}.json"
      COMMAND_ERROR_IS_FATAL ANY)
    list(APPEND reports "${data}/${number}.json")
  endforeach()
  if(NOT reports)
    message(FATAL_ERROR "no test ran code that counts: are their programs compiled from here on?")
  endif()
  execute_process(COMMAND "${FOOTFALL}" merge -o "${BUILD}/coverage-tests.json" ${reports} COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND "${FOOTFALL}" report "${BUILD}/coverage-tests.json" --by-test COMMAND_ERROR_IS_FATAL ANY)
endfunction()

if(STEP STREQUAL "run")
  reset()
  run()
elseif(STEP STREQUAL "report")
  report()
elseif(STEP STREQUAL "tests")
  run_each()
elseif(STEP STREQUAL "reset")
  reset()
endif()
