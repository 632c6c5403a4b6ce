// Service configs that are right but for some of their fields.

#ifndef VERBENA_TESTS_DIFFERENTIAL_CONFIG_DOCUMENTS_H_
#define VERBENA_TESTS_DIFFERENTIAL_CONFIG_DOCUMENTS_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace verbena::differential {

// A field of a service config, with a value that is right.
struct Field {
  const char* path;
  const char* value;  // Empty: left out.
};

// All fields that both libraries know.
const std::vector<Field>& Fields();

// Values in JSON that some field may have, and others may not.
const std::vector<std::string>& Values();

// Returns the document in which the fields at the positions in `changes` have
// these values, and the others are right.
std::string Document(const std::map<size_t, std::string>& changes);

}  // namespace verbena::differential

#endif  // VERBENA_TESTS_DIFFERENTIAL_CONFIG_DOCUMENTS_H_
