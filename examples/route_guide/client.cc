// Asks a routeguide.RouteGuide by each of its four methods.

#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "examples/route_guide/places.h"
#include "examples/route_guide/route_guide.verbena.h"
#include "rpc/channel.h"
#include "rpc/client_context.h"
#include "rpc/client_stream.h"

ABSL_FLAG(std::string, target, "127.0.0.1:50052", "address and port to call");

namespace routeguide {
namespace {

// How long each call may take.
constexpr absl::Duration kTimeout = absl::Seconds(10);

class Guided {
 public:
  explicit Guided(RouteGuide::Stub* stub) : stub_(*stub) {}

  absl::Status GetFeature(const Point& point) {
    verbena::ClientContext context;
    context.set_timeout(kTimeout);
    Feature feature;
    absl::Status status = stub_.GetFeature(&context, point, &feature);
    if (status.ok()) {
      std::cout << "there is " << feature.name() << std::endl;
    } else if (absl::IsNotFound(status)) {
      std::cout << status.message() << std::endl;
      return absl::OkStatus();
    }
    return status;
  }

  absl::Status ListFeatures() {
    verbena::ClientContext context;
    context.set_timeout(kTimeout);
    Rectangle rectangle;
    *rectangle.mutable_south_west() = MakePoint(470000000, 0);
    *rectangle.mutable_north_east() = MakePoint(530000000, 150000000);
    auto reader = stub_.ListFeatures(&context, rectangle);
    Feature feature;
    while (reader->Read(&feature)) {
      std::cout << "in the rectangle is " << feature.name() << std::endl;
    }
    return reader->Finish();
  }

  absl::Status RecordRoute() {
    verbena::ClientContext context;
    context.set_timeout(kTimeout);
    RouteSummary summary;
    auto writer = stub_.RecordRoute(&context, &summary);
    std::vector<Point> route = {MakePoint(500000000, 100000000)};
    for (const Feature& place : Places()) route.push_back(place.location());
    for (const Point& point : route) {
      // If this returns false, the call has ended. Finish() returns the reason.
      if (!writer->Write(point)) break;
    }
    absl::Status status = writer->Finish();
    if (status.ok()) {
      std::cout << "passed " << summary.point_count() << " points and "
                << summary.feature_count() << " places in "
                << summary.distance() / 1000 << " km" << std::endl;
    }
    return status;
  }

  absl::Status RouteChat() {
    verbena::ClientContext context;
    context.set_timeout(kTimeout);
    auto stream = stub_.RouteChat(&context);
    // A stream may be written by one thread while another one reads it.
    std::thread writer([&stream] {
      for (const char* message : {"first", "second", "third"}) {
        RouteNote note;
        *note.mutable_location() = Places().front().location();
        note.set_message(message);
        if (!stream->Write(note)) return;
      }
      stream->WritesDone();
    });
    RouteNote note;
    while (stream->Read(&note)) {
      std::cout << "somebody left \"" << note.message() << "\"" << std::endl;
    }
    writer.join();
    return stream->Finish();
  }

 private:
  RouteGuide::Stub& stub_;
};

}  // namespace
}  // namespace routeguide

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Asks a routeguide.RouteGuide.");
  absl::ParseCommandLine(argc, argv);

  auto stub = routeguide::RouteGuide::NewStub(
      verbena::CreateChannel(absl::GetFlag(FLAGS_target)));
  routeguide::Guided guided(stub.get());
  absl::Status status =
      guided.GetFeature(routeguide::Places().front().location());
  status.Update(guided.GetFeature(routeguide::MakePoint(0, 0)));
  status.Update(guided.ListFeatures());
  status.Update(guided.RecordRoute());
  status.Update(guided.RouteChat());
  if (!status.ok()) {
    std::cerr << "lost the way: " << status << std::endl;
    return 1;
  }
  return 0;
}
