package filter
import ("testing";"os";"strconv";"sync")
func TestAdhoc(t *testing.T) {
	needTcpdump(t)
	n,_ := strconv.Atoi(os.Getenv("N")); if n==0 {n=500}
	var wg sync.WaitGroup; var mu sync.Mutex; bad,ok,ref:=0,0,0
	work:=make(chan uint64)
	for range 3 { wg.Add(1); go func(){ defer wg.Done(); for seed:=range work {
		e := newGrammar(seed).expression(2)
		want, werr := libpcap(t,"-ddd",e)
		raw, gerr := compile(e, Options{Netmask: []byte{0,0,0,0}})
		mu.Lock()
		switch {
		case (werr==nil) != (gerr==nil): bad++; if bad<12 {t.Errorf("%d %s\n libpcap: %v\n ours: %v", seed,e,werr,gerr)}
		case gerr==nil && Decimal(raw)!=want: bad++; if bad<12 { w,_:=ParseRaw(want); t.Errorf("%d %s\nwant\n%s\ngot\n%s",seed,e,Listing(w),Listing(raw))}
		case gerr!=nil: ref++
		default: ok++
		}
		mu.Unlock()
	}}()}
	for i:=0;i<n;i++ { work<-uint64(i)}
	close(work); wg.Wait()
	t.Logf("ok %d refused %d bad %d",ok,ref,bad)
}
