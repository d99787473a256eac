-- Strings, tables, closures, coroutines and errors, the same in each run.
local function fib(n) return n < 2 and n or fib(n - 1) + fib(n - 2) end
local words, count = {}, {}
for i = 1, 3000 do words[i] = ("w%d"):format(i * 7919 % 401) end
for _, w in ipairs(words) do count[w] = (count[w] or 0) + 1 end
local names = {}
for w in pairs(count) do names[#names + 1] = w end
table.sort(names, function(a, b) return count[a] == count[b] and a < b or count[a] > count[b] end)
local function each(list) return coroutine.wrap(function() for i, v in ipairs(list) do coroutine.yield(i, v) end end) end
local text = {}
for i, w in each(names) do if i % 10 == 0 then text[#text + 1] = w:upper():gsub("%d+", "<%0>") end end
local failed = 0
for i = 1, 500 do if not pcall(function() if i % 3 == 0 then error({ i }) end return #text[i % 40 + 1] end) then failed = failed + 1 end end
print(fib(20), #table.concat(text, ","), failed, load("return 6 * 7")())
