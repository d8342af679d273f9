-- Allocates and frees without end.
require "apache2"

function handle(r)
    r.content_type = "text/plain"
    r:write("pid: " .. io.open("/proc/self/stat"):read("n") .. "\n")
    r:flush()
    while true do
        local heap = {}
        for i = 1, 1000 do
            heap[i] = { i }
        end
    end
end
