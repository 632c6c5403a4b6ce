// Explores all states that a model can reach.
//
// A model is a small struct with
//
//   template <typename Visit> void VisitSteps(Visit visit) const;
//     Calls visit(step) for each Step that can be taken next.
//   void Take(const Step& step);
//   const char* wrong() const;  // The rule that is broken; null if none is.
//   bool done() const;          // No work is left.
//   std::string Words(const Step& step) const;  // The step, for people.
//   std::string ToString() const;               // The state, for people.
//
// Its bytes are its state, so it has no pointers to parts of itself. What is no
// longer used should be zero: it would make two states of one.

#ifndef VERBENA_TESTS_MODEL_EXPLORER_H_
#define VERBENA_TESTS_MODEL_EXPLORER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "tests/model/exploration.h"

namespace verbena::model {

// A step that a model may take. The model says what the numbers mean.
struct Step {
  const char* name = "";
  uint8_t a = 0;
  uint8_t b = 0;
};

// Looks at each state once, breadth first, so that the trace to the first that
// is wrong is a shortest one. Then looks whether the work can be finished from
// each.
//
// Keeps 128 bits of hash of a state and not the state. That two states share
// them is less likely than that memory fails.
template <typename Model>
class Explorer {
  static_assert(std::is_trivially_copyable_v<Model>);

 public:
  explicit Explorer(const Limits& limits) : limits_(limits) {
    found_.seconds = -ProcessorSeconds();
  }

  Exploration Explore(const Model& first) {
    first_ = first;
    Add(first, Node{});
    std::vector<Model> level = {first};
    for (uint32_t begin = 0; !level.empty(); ++found_.depth) {
      std::vector<Model> next;
      for (size_t i = 0; i < level.size(); ++i) {
        Expand(level[i], static_cast<uint32_t>(begin + i), &next);
        if (!found_.wrong.empty()) return Result();
      }
      begin += static_cast<uint32_t>(level.size());
      level = std::move(next);
    }
    found_.whole = !cut_;
    if (found_.whole && limits_.seeks_ends) SeekEnds();
    return Result();
  }

 private:
  using Key = std::pair<uint64_t, uint64_t>;
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Node {
    uint32_t parent = kNone;
    Step step;  // From there to here.
  };

  static uint64_t Mix(uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^
           static_cast<uint64_t>(product >> 64);
  }
  static Key KeyOf(const Model& model) {
    // Any odd numbers without a pattern.
    constexpr uint64_t kA = 0x9e3779b97f4a7c15, kB = 0xc2b2ae3d27d4eb4f;
    constexpr uint64_t kC = 0xa0761d6478bd642f, kD = 0xe7037ed1a0b428db;
    const auto* const bytes = reinterpret_cast<const uint8_t*>(&model);
    Key key = {kA, kB};
    for (size_t at = 0; at < sizeof(Model); at += sizeof(uint64_t)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes + at,
                  std::min(sizeof(word), sizeof(Model) - at));
      key.first = Mix(key.first ^ word, kC) + at;
      key.second = Mix(key.second + word, kD) ^ kA;
    }
    return key;
  }

  // Returns the index of the state, and whether it is new.
  std::pair<uint32_t, bool> Add(const Model& model, const Node& node) {
    const auto index = static_cast<uint32_t>(nodes_.size());
    const auto [place, added] = seen_.try_emplace(KeyOf(model), index);
    if (added) nodes_.push_back(node);
    return {place->second, added};
  }

  void Expand(const Model& model, uint32_t index, std::vector<Model>* next) {
    if (const char* const wrong = model.wrong(); wrong != nullptr) {
      return Report(wrong, index);
    }
    if (model.done()) ends_.push_back(index);
    bool stuck = !model.done();
    model.VisitSteps([&](const Step& step) {
      stuck = false;
      Model after = model;
      after.Take(step);
      ++found_.steps;
      if (nodes_.size() >= limits_.max_states) {
        cut_ = true;
        return;
      }
      const auto [to, added] = Add(after, {index, step});
      if (added) next->push_back(after);
      if (limits_.seeks_ends) edges_.emplace_back(to, index);
    });
    if (stuck) Report("work is left, and nothing can be done", index);
  }

  // Walks back from the ends. A state that is not met leads to no end, although
  // something can always be done.
  void SeekEnds() {
    std::sort(edges_.begin(), edges_.end());
    std::vector<bool> met(nodes_.size());
    std::vector<uint32_t> todo = ends_;
    while (!todo.empty()) {
      const uint32_t index = todo.back();
      todo.pop_back();
      if (met[index]) continue;
      met[index] = true;
      for (auto edge = std::lower_bound(edges_.begin(), edges_.end(),
                                        std::pair(index, uint32_t{0}));
           edge != edges_.end() && edge->first == index; ++edge) {
        if (!met[edge->second]) todo.push_back(edge->second);
      }
    }
    const auto lost = std::find(met.begin(), met.end(), false);
    if (lost == met.end()) return;
    Report("the work can never be finished from here",
           static_cast<uint32_t>(lost - met.begin()));
  }

  // Takes the steps to the state once more, and writes them down.
  void Report(const char* wrong, uint32_t index) {
    found_.wrong = wrong;
    std::vector<Step> steps;
    for (; index != 0; index = nodes_[index].parent) {
      steps.push_back(nodes_[index].step);
    }
    std::reverse(steps.begin(), steps.end());
    Model model = first_;
    found_.trace.push_back(model.ToString());
    for (const Step& step : steps) {
      const std::string words = model.Words(step);
      model.Take(step);
      found_.trace.push_back(absl::StrCat(found_.trace.size(), ". ", words,
                                          "\n      ", model.ToString()));
    }
  }

  Exploration Result() {
    found_.states = nodes_.size();
    found_.seconds += ProcessorSeconds();
    return std::move(found_);
  }

  const Limits limits_;
  Model first_ = {};
  Exploration found_;
  bool cut_ = false;  // Some states were left out.
  absl::flat_hash_map<Key, uint32_t> seen_;
  std::vector<Node> nodes_;     // In the order in which they were found.
  std::vector<uint32_t> ends_;  // Those that are done().
  std::vector<std::pair<uint32_t, uint32_t>> edges_;  // To, from.
};

template <typename Model>
Exploration Explore(const Model& first, const Limits& limits = {}) {
  return Explorer<Model>(limits).Explore(first);
}

}  // namespace verbena::model

#endif  // VERBENA_TESTS_MODEL_EXPLORER_H_
