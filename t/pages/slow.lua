-- Answers in pieces, one every 100 ms, and allocates between them.
require "apache2"

function handle(r)
    local chunks = tonumber((r.args or ""):match("chunks=(%d+)")) or 1
    r.content_type = "text/plain"
    for i = 1, chunks do
        local heap = {}
        for j = 1, 1000 do
            heap[j] = { j }
        end
        r:write("chunk: " .. i .. "\n")
        r:flush()
        r.usleep(100000)
    end
    r:write("END\n")
    return apache2.OK
end
