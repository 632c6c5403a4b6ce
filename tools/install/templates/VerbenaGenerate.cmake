# verbena_generate(TARGET target PROTOS a.proto... [IMPORT_DIRS folder...])
#
# Runs protoc over the .proto files, for messages and for services, adds what it
# writes to the target's sources, and links the target with Verbena::verbena.
# "folder/a.proto" is then included as "folder/a.verbena.h", its messages alone
# as "folder/a.pb.h": by its path below the first of IMPORT_DIRS that it is in,
# which is where other .proto files import it from, too. Without IMPORT_DIRS that
# is the current source folder.
function(verbena_generate)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "TARGET" "PROTOS;IMPORT_DIRS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "verbena_generate: unknown argument "
      "${arg_UNPARSED_ARGUMENTS}; use TARGET, PROTOS and IMPORT_DIRS")
  endif()
  if(NOT TARGET "${arg_TARGET}")
    message(FATAL_ERROR "verbena_generate: the TARGET \"${arg_TARGET}\" "
      "does not exist yet; call add_library() or add_executable() first")
  endif()
  if(NOT arg_PROTOS)
    message(FATAL_ERROR "verbena_generate: PROTOS names no .proto file")
  endif()
  if(NOT arg_IMPORT_DIRS)
    set(arg_IMPORT_DIRS "${CMAKE_CURRENT_SOURCE_DIR}")
  endif()

  set(roots)
  set(imports)
  foreach(folder IN LISTS arg_IMPORT_DIRS)
    get_filename_component(folder "${folder}" ABSOLUTE)
    list(APPEND roots "${folder}")
    list(APPEND imports "-I${folder}")
  endforeach()
  set(out "${CMAKE_CURRENT_BINARY_DIR}/${arg_TARGET}.verbena")
  file(MAKE_DIRECTORY "${out}")

  foreach(proto IN LISTS arg_PROTOS)
    get_filename_component(proto "${proto}" ABSOLUTE)
    _verbena_import_path("${proto}" "${roots}" path)
    string(REGEX REPLACE "[.]proto$" "" stem "${path}")
    set(written "${out}/${stem}.pb.cc" "${out}/${stem}.verbena.cc")
    add_custom_command(
      OUTPUT ${written} "${out}/${stem}.pb.h" "${out}/${stem}.verbena.h"
      COMMAND protobuf::protoc
              "--plugin=protoc-gen-verbena=${Verbena_PLUGIN_EXECUTABLE}"
              ${imports} "--cpp_out=${out}" "--verbena_out=${out}" "${path}"
      DEPENDS "${proto}" "${Verbena_PLUGIN_EXECUTABLE}"
      COMMENT "Generating the messages and services of ${path}"
      VERBATIM)
    target_sources(${arg_TARGET} PRIVATE ${written})
  endforeach()
  target_include_directories(${arg_TARGET} PUBLIC "$<BUILD_INTERFACE:${out}>")
  target_link_libraries(${arg_TARGET} PUBLIC Verbena::verbena)
endfunction()

# The path of `proto` below the first of the folders `roots` that it is in.
function(_verbena_import_path proto roots result)
  foreach(root IN LISTS roots)
    file(RELATIVE_PATH path "${root}" "${proto}")
    if(NOT path MATCHES "^[.][.]/")
      set(${result} "${path}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "verbena_generate: ${proto} is in none of IMPORT_DIRS: "
    "${roots}")
endfunction()
