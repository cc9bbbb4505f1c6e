# The whole way of a user of the package; ends at the first step that fails.
# usage: cmake -D BUILD=... -D SOURCE=... -D GENERATOR=... -D COMPILER=... -D SANITIZE=... -P this
set(work ${BUILD}/package_test)
set(prefix ${work}/prefix)
file(REMOVE_RECURSE ${work})

function(step name)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "${name} failed with ${code}:\n${out}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

set(flags)
if(SANITIZE)
  set(flags "-DCMAKE_CXX_FLAGS=-fsanitize=${SANITIZE}")
endif()
step("installing" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
step("configuring the consumer" ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${work}/consumer
     -G ${GENERATOR} -D CMAKE_PREFIX_PATH=${prefix} -D CMAKE_CXX_COMPILER=${COMPILER}
     -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF -D HEADERS=${prefix}/include
     -D PAGE=${SOURCE}/examples/README.md ${flags})
step("building the consumer" ${CMAKE_COMMAND} --build ${work}/consumer)
step("running the consumer of lockstep::agreement" ${work}/consumer/agreement_consumer)
step("running the consumer of lockstep::capi" ${work}/consumer/c_consumer)
if(EXISTS ${prefix}/bin/lockstep-mpirun)
  step("running under the installed lockstep-mpirun" ${prefix}/bin/lockstep-mpirun -t 60 -n 2 ${work}/consumer/agreement_consumer)
endif()
# The installed Python package finds the installed library by itself.
file(GLOB_RECURSE package ${prefix}/py.typed)
cmake_path(GET package PARENT_PATH folder)
cmake_path(GET folder PARENT_PATH folder)
if(NOT SANITIZE)
  step("running the installed Python package" ${CMAKE_COMMAND} -E env --unset=LOCKSTEP_LIBRARY
       PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=${folder} /usr/bin/python3 -c
       "import lockstep\nprint(lockstep.agreed(lambda n: n + 1, lockstep.Group(), name='f')(41))")
  if(NOT output MATCHES "42")
    message(FATAL_ERROR "the installed Python package said: ${output}")
  endif()
endif()
file(MAKE_DIRECTORY ${work}/cache)
file(CHMOD ${work}/cache PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
step("running the consumer of lockstep::worker" ${CMAKE_COMMAND} -E env
     LOCKSTEP_CACHE_DIR=${work}/cache OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
     ${work}/consumer/worker_consumer)

step("configuring as a subproject" ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/subproject
     -B ${work}/subproject -G ${GENERATOR} -D LOCKSTEP=${SOURCE} -D CMAKE_CXX_COMPILER=${COMPILER})
