#include <string>
#include <vector>
#include <map>
#include <unordered_map>
#include <set>
#include <unordered_set>
#include <memory>
#include <list>
#include <deque>
#include <queue>
#include <stack>
#include <string_view>
#include <sstream>
#include <fstream>
#include <functional>
#include <iostream>
struct Cmp { bool operator()(int,int) const; };
template <class T> struct Al { typedef T value_type; T* allocate(size_t); void deallocate(T*, size_t); };
#define F(...) void f(__VA_ARGS__) {}
F(std::string)
F(std::wstring)
F(std::u16string)
F(std::string_view)
F(std::string const&)
F(std::vector<int>)
F(std::vector<std::string>)
F(std::vector<std::vector<char*>>)
F(std::vector<int, Al<int>>)
F(std::map<std::string, int>)
F(std::map<int, int, Cmp>)
F(std::multimap<int, std::vector<int>>)
F(std::set<std::string>)
F(std::set<int, std::greater<int>>)
F(std::unordered_map<std::string, std::vector<int>>)
F(std::unordered_set<int>)
F(std::unique_ptr<int>)
F(std::unique_ptr<int []>)
F(std::unique_ptr<int, void (*)(int*)>)
F(std::shared_ptr<std::string>)
F(std::list<int>)
F(std::deque<int>)
F(std::queue<int>)
F(std::stack<int>)
F(std::priority_queue<int>)
F(std::priority_queue<int, std::vector<int>, std::greater<int>>)
F(std::ostream&)
F(std::istringstream&)
F(std::ofstream&)
F(std::function<void (std::string, int)>)
F(std::pair<std::string, std::vector<std::string>>)
F(std::map<char const*, std::map<long, std::string>>)
F(std::vector<std::function<bool (int)>>)
F(std::allocator<char>)
F(std::less<int>)
F(std::map<int*, int>)
F(std::basic_string<char, std::char_traits<char>, Al<char>>)
