-- Fills a table with many small ones, so that a signal almost always finds
-- the allocator at work.

function handle(r)
    local objects = {}

    for i = 1, 200000 do
        objects[i] = { i }
    end
    r.content_type = "text/plain"
    r:puts(#objects, " objects\nEND\n")
    return apache2.OK
end
