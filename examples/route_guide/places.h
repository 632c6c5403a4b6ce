// The places that the server knows, and how far they are apart.

#ifndef VERBENA_EXAMPLES_ROUTE_GUIDE_PLACES_H_
#define VERBENA_EXAMPLES_ROUTE_GUIDE_PLACES_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "examples/route_guide/route_guide.pb.h"

namespace routeguide {

inline Point MakePoint(int32_t latitude, int32_t longitude) {
  Point point;
  point.set_latitude(latitude);
  point.set_longitude(longitude);
  return point;
}

inline bool operator==(const Point& a, const Point& b) {
  return a.latitude() == b.latitude() && a.longitude() == b.longitude();
}

inline Feature MakeFeature(const std::string& name, int32_t latitude,
                           int32_t longitude) {
  Feature feature;
  feature.set_name(name);
  *feature.mutable_location() = MakePoint(latitude, longitude);
  return feature;
}

inline std::vector<Feature> Places() {
  return {MakeFeature("Eiffel Tower", 488583740, 22944810),
          MakeFeature("Big Ben", 515007292, -1246254),
          MakeFeature("Brandenburg Gate", 525162746, 133777041),
          MakeFeature("Colosseum", 418902102, 124922309),
          MakeFeature("Leaning Tower of Pisa", 437229520, 103965970),
          MakeFeature("Charles Bridge", 500864770, 144114370),
          MakeFeature("Neuschwanstein", 475575740, 107498004),
          MakeFeature("Little Mermaid", 556928600, 125992800)};
}

// Metres on a sphere of the size of the earth.
inline double Distance(const Point& from, const Point& to) {
  constexpr double kRadians = 3.14159265358979 / 180 / 1e7;
  const double latitude1 = from.latitude() * kRadians;
  const double latitude2 = to.latitude() * kRadians;
  const double north = std::sin((latitude2 - latitude1) / 2);
  const double east =
      std::sin((to.longitude() - from.longitude()) * kRadians / 2);
  const double a =
      north * north + std::cos(latitude1) * std::cos(latitude2) * east * east;
  return 2 * 6371000 * std::asin(std::sqrt(a));
}

}  // namespace routeguide

#endif  // VERBENA_EXAMPLES_ROUTE_GUIDE_PLACES_H_
