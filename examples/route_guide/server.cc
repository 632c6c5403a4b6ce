// Serves routeguide.RouteGuide until it gets SIGINT or SIGTERM.

#include <mutex>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "examples/common/serve.h"
#include "examples/route_guide/places.h"
#include "examples/route_guide/route_guide.verbena.h"
#include "rpc/server_builder.h"
#include "rpc/server_context.h"
#include "rpc/server_stream.h"

ABSL_FLAG(std::string, listen, "127.0.0.1:50052",
          "address and port to serve on; port 0 takes any free one");

namespace routeguide {
namespace {

bool Contains(const Rectangle& rectangle, const Point& point) {
  return point.latitude() >= rectangle.south_west().latitude() &&
         point.latitude() <= rectangle.north_east().latitude() &&
         point.longitude() >= rectangle.south_west().longitude() &&
         point.longitude() <= rectangle.north_east().longitude();
}

class RouteGuideService final : public RouteGuide::Service {
  absl::Status GetFeature(verbena::ServerContext* /*context*/,
                          const Point* request, Feature* response) override {
    const Feature* const found = Find(*request);
    if (found == nullptr) return absl::NotFoundError("there is nothing");
    *response = *found;
    return absl::OkStatus();
  }

  absl::Status ListFeatures(verbena::ServerContext* /*context*/,
                            const Rectangle* request,
                            verbena::ServerWriter<Feature>* writer) override {
    for (const Feature& place : places_) {
      if (!Contains(*request, place.location())) continue;
      // Write() returns false if the client has cancelled or is gone.
      if (!writer->Write(place)) return absl::CancelledError();
    }
    return absl::OkStatus();
  }

  absl::Status RecordRoute(verbena::ServerContext* context,
                           verbena::ServerReader<Point>* reader,
                           RouteSummary* response) override {
    Point point;
    Point last;
    double distance = 0;
    int points = 0;
    int features = 0;
    while (reader->Read(&point)) {
      if (points > 0) distance += Distance(last, point);
      if (Find(point) != nullptr) ++features;
      ++points;
      last = point;
    }
    // Read() also returns false when the client is gone in the middle.
    if (context->IsCancelled()) return absl::CancelledError();
    response->set_point_count(points);
    response->set_feature_count(features);
    response->set_distance(static_cast<int32_t>(distance));
    return absl::OkStatus();
  }

  absl::Status RouteChat(
      verbena::ServerContext* /*context*/,
      verbena::ServerReaderWriter<RouteNote, RouteNote>* stream) override {
    RouteNote note;
    while (stream->Read(&note)) {
      // Write() may wait for the client, so mutex_ is not held here.
      for (const RouteNote& earlier : LeaveNote(note)) {
        if (!stream->Write(earlier)) return absl::CancelledError();
      }
    }
    return absl::OkStatus();
  }

  const Feature* Find(const Point& point) const {
    for (const Feature& place : places_) {
      if (place.location() == point) return &place;
    }
    return nullptr;
  }

  // Keeps the note, and returns those that were left there before it.
  std::vector<RouteNote> LeaveNote(const RouteNote& note) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<RouteNote> earlier;
    for (const RouteNote& each : notes_) {
      if (each.location() == note.location()) earlier.push_back(each);
    }
    notes_.push_back(note);
    return earlier;
  }

  const std::vector<Feature> places_ = Places();
  std::mutex mutex_;
  std::vector<RouteNote> notes_;  // All clients' notes. Guarded by mutex_.
};

}  // namespace
}  // namespace routeguide

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Serves routeguide.RouteGuide.");
  absl::ParseCommandLine(argc, argv);

  routeguide::RouteGuideService service;
  verbena::ServerBuilder builder;
  builder.AddListeningPort(absl::GetFlag(FLAGS_listen));
  builder.RegisterService(&service);
  return examples::Serve(builder);
}
