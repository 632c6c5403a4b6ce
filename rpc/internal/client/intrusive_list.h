// A list whose links stand in its elements.

#ifndef VERBENA_RPC_INTERNAL_CLIENT_INTRUSIVE_LIST_H_
#define VERBENA_RPC_INTERNAL_CLIENT_INTRUSIVE_LIST_H_

namespace verbena::internal {

// First in, first out; any element can be taken out. T has the public fields
// `next` and `previous`, which belong to the list while the element is in it,
// so an element is in one list at a time. The list owns nothing. Not
// thread-safe.
template <typename T>
class IntrusiveList {
 public:
  IntrusiveList() = default;
  IntrusiveList(const IntrusiveList&) = delete;
  IntrusiveList& operator=(const IntrusiveList&) = delete;

  bool empty() const { return first_ == nullptr; }
  T* first() const { return first_; }  // Then by `next`, null at the end.

  void PushBack(T* element) {
    element->next = nullptr;
    element->previous = last_;
    (last_ == nullptr ? first_ : last_->next) = element;
    last_ = element;
  }

  // REQUIRES: `element` is in this list.
  void Remove(T* element) {
    (element->previous == nullptr ? first_ : element->previous->next) =
        element->next;
    (element->next == nullptr ? last_ : element->next->previous) =
        element->previous;
    element->next = nullptr;
    element->previous = nullptr;
  }

  // Null when empty.
  T* PopFront() {
    T* element = first_;
    if (element != nullptr) Remove(element);
    return element;
  }

 private:
  T* first_ = nullptr;
  T* last_ = nullptr;
};

}  // namespace verbena::internal

#endif  // VERBENA_RPC_INTERNAL_CLIENT_INTRUSIVE_LIST_H_
