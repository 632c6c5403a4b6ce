// Lists whose elements bring their own links, so that joining one never fails.

#ifndef VERBENA_TRANSPORT_BASE_INTRUSIVE_LIST_H_
#define VERBENA_TRANSPORT_BASE_INTRUSIVE_LIST_H_

#include <cstdint>

namespace verbena::base {

template <typename T>
class IntrusiveList;

// The links of a T, which derives from it. An element stands in one list at a
// time.
template <typename T>
class ListLink {
 public:
  ListLink() = default;
  ListLink(const ListLink&) = delete;
  ListLink& operator=(const ListLink&) = delete;

  // Whether the element stands in a list.
  bool is_linked() const { return next_ != nullptr; }

 private:
  friend class IntrusiveList<T>;

  ListLink* next_ = nullptr;
  ListLink* previous_ = nullptr;
};

// A doubly linked list, which owns nothing: an element must be removed before
// it is destroyed. Every function but Contains() and Clear() takes constant
// time. Not thread-safe.
template <typename T>
class IntrusiveList {
 public:
  // Links in a circle through `ends_` need no special case at either end.
  IntrusiveList() { ends_.next_ = ends_.previous_ = &ends_; }

  bool empty() const { return size_ == 0; }
  uint32_t size() const { return size_; }
  // Null if the list is empty.
  T* front() const { return Element(ends_.next_); }
  // The element behind `element`, or null. REQUIRES: it stands in this list.
  T* Next(const T* element) const { return Element(Link(element)->next_); }

  // REQUIRES: the element stands in no list.
  void PushBack(T* element) { Insert(Link(element), &ends_); }
  void PushFront(T* element) { Insert(Link(element), ends_.next_); }

  // REQUIRES: the element stands in this list.
  void Remove(T* element) {
    ListLink<T>* const link = Link(element);
    link->previous_->next_ = link->next_;
    link->next_->previous_ = link->previous_;
    link->next_ = link->previous_ = nullptr;
    --size_;
  }
  // Removes the first element and returns it; null if the list is empty.
  T* PopFront() {
    T* const element = front();
    if (element != nullptr) Remove(element);
    return element;
  }
  void Clear() {
    while (PopFront() != nullptr) {
    }
  }

  // Looks at every element.
  bool Contains(const T* element) const {
    const T* other = front();
    while (other != nullptr && other != element) other = Next(other);
    return other != nullptr;
  }

 private:
  static ListLink<T>* Link(T* element) { return element; }
  static const ListLink<T>* Link(const T* element) { return element; }
  T* Element(ListLink<T>* link) const {
    return link == &ends_ ? nullptr : static_cast<T*>(link);
  }
  void Insert(ListLink<T>* link, ListLink<T>* before) {
    link->next_ = before;
    link->previous_ = before->previous_;
    before->previous_->next_ = link;
    before->previous_ = link;
    ++size_;
  }

  ListLink<T> ends_;  // Before the first element and behind the last.
  uint32_t size_ = 0;
};

}  // namespace verbena::base

#endif  // VERBENA_TRANSPORT_BASE_INTRUSIVE_LIST_H_
