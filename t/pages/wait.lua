-- One wait, which a signal would cut short: /wait.lua?by=usleep&seconds=4
require "apache2"

local waits = {
    usleep = function(r, seconds)
        r.usleep(seconds * 1000000)
        return true
    end,
    popen = function(r, seconds)
        local program = io.popen("sleep " .. seconds .. " && echo slept")
        local line = program:read("l")
        return program:close() and line == "slept"
    end,
}

function handle(r)
    local by, seconds = r.args:match("by=(%w+)&seconds=(%d+)")
    local begun = r.clock()
    r.content_type = "text/plain"
    r:write("pid: " .. io.open("/proc/self/stat"):read("n") .. "\n")
    r:flush()
    local result = waits[by](r, tonumber(seconds))
    local elapsed = (r.clock() - begun) // 1000
    if result and elapsed >= tonumber(seconds) * 1000 then
        r:write("waited: in full\n")
    else
        r:write("waited: cut short after " .. elapsed .. " ms\n")
    end
    return apache2.OK
end
