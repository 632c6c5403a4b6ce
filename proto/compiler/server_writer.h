// Writes the server's half of a generated service: the base class Service.

#ifndef VERBENA_PROTO_COMPILER_SERVER_WRITER_H_
#define VERBENA_PROTO_COMPILER_SERVER_WRITER_H_

#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/printer.h"

namespace verbena::compiler {

// Prints the declarations that belong into the body of the service's class.
void WriteServerDeclarations(const google::protobuf::ServiceDescriptor& service,
                             google::protobuf::io::Printer& printer);

// Prints the definitions, for the namespace of the service's package.
void WriteServerDefinitions(const google::protobuf::ServiceDescriptor& service,
                            google::protobuf::io::Printer& printer);

}  // namespace verbena::compiler

#endif  // VERBENA_PROTO_COMPILER_SERVER_WRITER_H_
