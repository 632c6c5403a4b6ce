#include "tools/rpc_bench/report.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

namespace verbena::bench {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::UnorderedElementsAre;

// The output of an old version, which did not yet print the fields of a
// message: two results, of which one failed.
constexpr char kOldJson[] =
    R"({"device": "soft", "client_processor": null, "server_processor": 1, )"
    R"("results": [{"layer": "rpc", "op": "echo", "mode": "polled", )"
    R"("payload": "message", "size_bytes": 64, "outstanding": 1, )"
    R"("rate_per_s": null, "p50_us": 1.250, "p90_us": 2.000, )"
    R"("p99_us": 2.500, "p999_us": 31.000, "max_us": 40.000, )"
    R"("calls_per_s": 2000000.0, "bytes_per_s": 128000000, )"
    R"("cpu_us_per_call": null, "p50_ratio_to_verbs": null, )"
    R"("rate_ratio_to_verbs": null, "share_of_raw_bandwidth": null, )"
    R"("errors": 0, "unstarted": 0}, {"layer": "rpc", "op": "echo", )"
    R"("mode": "polled", "payload": "message", "size_bytes": 64, )"
    R"("outstanding": 32, "rate_per_s": null, "p50_us": null, )"
    R"("p90_us": null, "p99_us": null, "p999_us": null, "max_us": null, )"
    R"("calls_per_s": 0.0, "bytes_per_s": 0, "cpu_us_per_call": null, )"
    R"("p50_ratio_to_verbs": null, "rate_ratio_to_verbs": null, )"
    R"("share_of_raw_bandwidth": null, "errors": 7, "unstarted": 0}], )"
    R"("counters": {"rcvd_rnr_err": 3}})";

Report Parse(const std::string& json) {
  Report report;
  const auto status =
      google::protobuf::util::JsonStringToMessage(json, &report);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return report;
}

// The words in quotes before a colon.
std::set<std::string> Keys(const std::string& json) {
  std::set<std::string> keys;
  size_t end = 0;
  while ((end = json.find("\":", end + 1)) != std::string::npos) {
    const size_t begin = json.rfind('"', end - 1) + 1;
    keys.insert(json.substr(begin, end - begin));
  }
  return keys;
}

Report::Result Measured(const std::string& layer, uint32_t size_bytes,
                        uint32_t outstanding, double p50_us, double calls_per_s,
                        const std::string& op = "echo") {
  Report::Result result;
  result.set_layer(layer);
  result.set_op(op);
  result.set_mode("polled");
  result.set_size_bytes(size_bytes);
  result.set_outstanding(outstanding);
  result.set_p50_us(p50_us);
  result.set_p90_us(2);
  result.set_p99_us(2.5);
  result.set_p999_us(31.0);
  result.set_max_us(99);
  result.set_mean_us(1.75);
  result.set_calls_per_s(calls_per_s);
  result.set_bytes_per_s(calls_per_s * size_bytes);
  result.set_cpu_us_per_call(0.5);
  return result;
}

Report::Result Failed(uint32_t size_bytes, uint32_t outstanding) {
  Report::Result result;
  result.set_layer("rpc");
  result.set_op("echo");
  result.set_size_bytes(size_bytes);
  result.set_outstanding(outstanding);
  result.set_errors(7);
  result.set_first_error("UNAVAILABLE: gone");
  return result;
}

Report Of(const std::vector<Report::Result>& results) {
  Report report;
  report.set_device("soft");
  report.set_client_processor(0);
  report.set_server_processor(1);
  for (const Report::Result& result : results) *report.add_results() = result;
  AddRatios(report);
  return report;
}

TEST(JsonTest, HasTheKeysThatItAlwaysHad) {
  const Report report = Parse(kOldJson);
  ASSERT_EQ(report.results_size(), 2);
  EXPECT_FALSE(report.has_client_processor());
  EXPECT_EQ(report.results(0).p50_us(), 1.25);
  EXPECT_FALSE(report.results(1).has_p50_us());
  std::set<std::string> now = Keys(Json(report));
  for (const std::string& key : Keys(kOldJson)) {
    EXPECT_EQ(now.erase(key), 1u) << key;
  }
  EXPECT_THAT(now, UnorderedElementsAre("first_error", "client_verbs",
                                        "server_verbs", "kind", "api",
                                        "streams", "least_share", "mean_us"));
}

TEST(JsonTest, ComesThroughAndIsOneLineOfNumbers) {
  const std::string json = Json(Parse(kOldJson));
  EXPECT_EQ(json.find('\n'), json.size() - 1);
  EXPECT_EQ(Json(Parse(json)), json);
  for (const char* text :
       {"\"size_bytes\":64,", "\"calls_per_s\":2000000,", "\"errors\":7,",
        "\"rcvd_rnr_err\":3", "\"client_processor\":null"}) {
    EXPECT_THAT(json, HasSubstr(text));
  }
}

TEST(JsonTest, OfNothingIsAnObject) {
  EXPECT_EQ(Parse(Json(Report())).results_size(), 0);
}

TEST(CsvTest, HasALineOfNamesAndALineForEachResult) {
  Report report = Parse(kOldJson);
  report.mutable_results(0)->mutable_client_verbs()->set_sends(1);
  report.mutable_results(0)->set_mean_us(1.375);
  report.mutable_results(1)->set_first_error("say \"no\", then");
  const std::string csv = Csv(report);
  EXPECT_THAT(csv, HasSubstr("layer,op,mode,payload,size_bytes,outstanding,"
                             "rate_per_s,p50_us,p90_us,"));
  EXPECT_THAT(csv, HasSubstr(",first_error,client_verbs.sends,"));
  EXPECT_THAT(csv, HasSubstr("\n\"rpc\",\"echo\",\"polled\",\"message\",64,1,,"
                             "1.25,2,2.5,31,40,2000000,128000000,"));
  EXPECT_THAT(csv, HasSubstr("\n\"rpc\",\"echo\",\"polled\",\"message\",64,32,"
                             ",,,,,,0,"));
  EXPECT_THAT(csv, HasSubstr(",least_share,mean_us\n\"rpc\","));
  EXPECT_THAT(csv, HasSubstr(",1.375\n\"rpc\","));
  EXPECT_THAT(csv, HasSubstr(",\"say \"\"no\"\", then\","));
  EXPECT_THAT(Csv(Report()), IsEmpty());
}

TEST(TableTest, ComparesTheLayersOfEachSize) {
  EXPECT_EQ(
      Table(Of({Measured("verbs", 64, 1, 0.5, 1e6),
                Measured("rpc", 64, 1, 1.25, 5e5),
                Measured("verbs", 64, 32, 9, 4e6),
                Measured("rpc", 64, 32, 9, 2e6)})),
      "device: soft; both sides poll; client on processor 0, server on "
      "processor 1\n"
      "\n"
      "                   1 outstanding, us                                   "
      "           32 outstanding\n"
      " payload layer           p50      p90      p99    p99.9       max     "
      "mean  ratio     calls/s      MB/s  ratio   cpu us  errors\n"
      "    64 B verbs          0.50     2.00     2.50    31.00     99.00     "
      "1.75   1.00     4000000     256.0   1.00     0.50       0\n"
      "         rpc            1.25     2.00     2.50    31.00     99.00     "
      "1.75   2.50     2000000     128.0   0.50     0.50       0\n");
}

TEST(TableTest, TakesBothHalvesFromTheOnlyDepth) {
  const std::string table = Table(Of({Measured("rpc", 64, 8, 1.25, 2e6)}));
  EXPECT_THAT(table, HasSubstr(" 8 outstanding, us"));
  EXPECT_THAT(table,
              HasSubstr("99.00     1.75      -     2000000     128.0      - "));
}

TEST(TableTest, SaysWhichPayloadsTravelledBesideTheMessage) {
  const Report::Result small = Measured("rpc", 64, 1, 1, 1e6);
  EXPECT_THAT(Table(Of({small})), Not(HasSubstr("attachments")));
  Report::Result large = Measured("rpc", 65536, 1, 1, 1e6);
  large.set_payload("attachment");
  EXPECT_THAT(Table(Of({small, large})),
              HasSubstr("rpc payloads that travel as attachments: 64 KiB\n"));
}

TEST(TableTest, ShowsWhatOfTheRawBandwidthIsReached) {
  // As much time as a READ and a WRITE take: all of it.
  const std::string table =
      Table(Of({Measured("rpc", 1 << 20, 32, 900, 1000),
                Measured("verbs", 1 << 20, 32, 900, 2000, "write"),
                Measured("verbs", 1 << 20, 32, 900, 2000, "read")}));
  EXPECT_THAT(table, HasSubstr("raw streams, 32 outstanding, MB/s"));
  EXPECT_THAT(
      table, HasSubstr("   1 MiB     2097.2     2097.2          -       1.00"));
}

TEST(TableTest, ShowsWhatACallAsksOfTheDevices) {
  Report::Result counted = Measured("rpc", 64, 1, 1, 1);
  EXPECT_THAT(Table(Of({counted})), Not(HasSubstr("cost in verbs")));
  counted.mutable_client_verbs()->set_sends(1);
  counted.mutable_server_verbs()->set_arms(0.5);
  const std::string table = Table(Of({counted}));
  EXPECT_THAT(table, HasSubstr("cost in verbs, a call and side\n"));
  EXPECT_THAT(table, HasSubstr(" side          sends       reads "));
  EXPECT_THAT(table, HasSubstr(" client        1.000       0.000 "));
  EXPECT_THAT(table, HasSubstr(" server        0.000       0.000 "));
}

TEST(TableTest, ShowsErrorsAndTheirReason) {
  const std::string table = Table(Of({Failed(64, 1), Failed(64, 32)}));
  EXPECT_THAT(table, HasSubstr("      14\n"));
  EXPECT_THAT(table, HasSubstr("rpc echo, 64 B, 32 outstanding: 7 errors, the "
                               "first: UNAVAILABLE: gone\n"));
}

TEST(TableTest, SaysWhatAnOpenLoopCouldNotDo) {
  Report::Result late = Measured("rpc", 64, 32, 1, 1);
  late.set_unstarted(12);
  EXPECT_THAT(Table(Of({late})), HasSubstr("12 calls were never started"));
}

TEST(TableTest, ShowsCountersThatGrewAndAlwaysThoseOfReceiverNotReady) {
  Report report = Of({Measured("rpc", 64, 1, 1, 1)});
  (*report.mutable_counters())["sent_pkts"] = 7;
  (*report.mutable_counters())["duplicates"] = 0;
  (*report.mutable_counters())["rcvd_rnr_err"] = 0;
  const std::string table = Table(report);
  EXPECT_THAT(table, HasSubstr("counter sent_pkts: +7\n"));
  EXPECT_THAT(table, HasSubstr("counter rcvd_rnr_err: +0\n"));
  EXPECT_THAT(table, Not(HasSubstr("duplicates")));
}

TEST(AddRatiosTest, NeedsTheSameCaseAtTheVerbsLayer) {
  const Report report =
      Of({Measured("verbs", 64, 1, 2, 100), Measured("rpc", 64, 1, 3, 50),
          Measured("rpc", 64, 32, 3, 50), Failed(64, 1)});
  EXPECT_DOUBLE_EQ(report.results(1).p50_ratio_to_verbs(), 1.5);
  EXPECT_DOUBLE_EQ(report.results(1).rate_ratio_to_verbs(), 0.5);
  EXPECT_FALSE(report.results(2).has_p50_ratio_to_verbs());
  EXPECT_FALSE(report.results(3).has_rate_ratio_to_verbs());
}

}  // namespace
}  // namespace verbena::bench
